"""The job `blocks`: log heights by block of public keys.

`job` is the code that Spark runs; the other modules work without Spark. A *set* is a schema (its logs, from
`logs`) or a peer (its holdings, from `receipts`).

Before the shuffle, stateless:
- `records`: decodes records of `logs`, a whole batch at once; malformed ones are refused.
- `packing`: a batch reduced to one row per log, distributed by shard; `rows`: the packed form.

After the shuffle, one shard at a time:
- `step`: one micro-batch: rows and state in, records and state out.
- `growth`: heights that have grown, and the changes of the fingerprints, for all blocks at once.
- `block`: one block: recent rows, when they move to chunks, and the resulting records.

The state consists of the written records: `state`. `settings`: its layout.
"""
