"""The job `chotki`: merges input from edges into one state, with vectors that never run ahead of it.

- `job`: the Spark query. `packing`: turns records of the three inputs into rows by shard (`rows`).
- `step`: one shard merges fields and the vectors of its blocks; `state` stores them, and the pieces of large
  operands.
- `epochs`: one step for all shards: packets and syncs that count, the global vector, and an epoch's marks.
- `output_records`: the output and its order. `settings`.
"""
