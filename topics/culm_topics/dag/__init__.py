"""The topics of DAG replication: nodes, shards, publishes, and what the job makes of them.

- `catalogue`: the topics; `records/`: their keys and values.
- `shard_chunks`: shards in chunks, cut and put together.
- `orders`: orders of publishes, as their records make them.
- `consumer/`: `DagConsumer`, what is published and its content, for programs.
- `verdict`: the verdict settings that every process of a deployment agrees to.
- `errors`: what goes wrong between a program and its shards.
"""
