"""Parts of a stateful job: how it packs rows for its shards, restores its state, and emits records.

`job_state` declares and holds state variables, `shard_step` packs rows before the shuffle and runs a job's
step for each shard behind it, on Spark's state, `packed_rows` are rows by the hundred in one record.
"""
