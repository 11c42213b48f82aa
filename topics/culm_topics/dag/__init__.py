"""The topics of DAG replication: nodes, shards, publishes, and what the job makes of them.

- `catalogue`: the topics; `records/`: their keys and values; `cddl/`: the same shapes as CDDL.
- `shard_chunks`: shards in chunks, cut and put together.
- `verdict`: the verdict settings that every process of a deployment agrees to.
- `errors`: what goes wrong between a program and its shards.
"""
