"""The job `dag`: heads of spaces, blocks in shards, and the order, tip and state of publishes.

All its output is a function of the set of records that connectors produced, not of their order or batches.
`job` is the code that Spark runs; the other modules work without Spark.

Before the shuffle, stateless:
- `packing`: records are checked and become rows; `rows`: their packed form.
- `contents`: the content of a block, read once: its fields and whether it is signed, or why it is refused.

After the shuffle, in two stages:
- `shards`: chunks become shards, their index, and the links of their blocks; sharded by the shard's CID.
- `step`: new rows become records, in one place for all, since a DAG spans spaces and ids.

`replicas`: everything known, in memory; `spaces`: one space; `published`: the publishes of an id. The state:
`state`, the received rows, batch by batch; `settings`: its layout and limits.
"""
