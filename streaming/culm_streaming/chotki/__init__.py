"""The job `chotki`: what edges brought becomes one merged state, with vectors that never run ahead of it.

- `job`: what Spark runs. `packing`: records of the three inputs become rows by shard (`rows`).
- `step`: one shard merges fields and the vectors of its blocks; `state` keeps them, and the pieces of large
  operands.
- `epochs`: one step for all: which packets and syncs count, the global vector, and the marks of an epoch.
- `output_records`: what is written, and in which order. `settings`.
"""
