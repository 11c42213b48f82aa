"""The topics of DAG replication: nodes, shards, publishes, and the state that the job derives from them.

- `catalogue`: the topics; `records/`: their keys and values.
- `shard_chunks`: cuts shards into chunks and assembles them.
- `orders`: orders of publishes, built from their records.
- `consumer/`: `DagConsumer`: published content, for programs.
- `validation_rules`: the validation rules on which every process of a deployment agrees.
- `errors`: the errors between a program and its shards.
"""
