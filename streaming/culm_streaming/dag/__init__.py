"""The job `dag`: heads of spaces, blocks in shards; order, tip and state of what is published.

All that it writes is a function of the set of records that connectors brought, not of order or batches.
`job` is what Spark runs; all else is without Spark.

Before the shuffle, stateless:
- `packing`: records are checked and become rows; `rows`: their packed form.
- `contents`: what is read of a block, once: its fields and whether it is signed, or why it is refused.

Behind it, in two stages:
- `shards`: chunks become shards, their index, and what their blocks link to: sharded by the shard's CID;
- `step`: what is new becomes records: one place for all, since a DAG lies across spaces and ids.

`replicas`: all that is known, in memory; `spaces`: one space; `published`: what of an id is here.
The state: `state`, what came, batch behind batch; `settings`: its layout and bounds.
"""
