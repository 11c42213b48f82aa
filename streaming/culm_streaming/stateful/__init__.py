"""Parts of a stateful job: how it packs rows for its shards, restores its state, and emits records.

`job_state` declares and holds state variables, `shard_step` runs a job's step for each shard on Spark's
state, `frames` turns rows into Arrow batches before the shuffle and into data frames behind it, `packed_rows`
are rows by the hundred in one record.
"""
