"""The job `blocks`: log heights by block of public keys. `job` is what Spark runs; all else is without Spark.

A *set* is a schema (its logs, out of `logs`) or a peer (what it holds, out of `receipts`).

Before the shuffle, stateless:
- `records`: records of `logs` taken apart for a whole batch at once; what cannot be is refused;
- `packing`: a batch reduced to one row a log, sorted out by shard; `rows`: the packed form.

Behind it, one shard at a time:
- `step`: one micro-batch: rows and state in, records and state out;
- `growth`: which heights have grown, and by what the fingerprints change, for all blocks at once;
- `block`: one block: what is recent, when it goes into chunks, and the records that say so.

The state is what was written, record by record: `state`. `settings`: its layout.
"""
