"""Parts of a stateful job: they pack rows for its shards, restore its state, and emit records.

`job_state` declares and holds state variables. `shard_step` packs rows before the shuffle and runs a job's
step for each shard after it, on Spark's state; `step_processor` is the class that Spark calls for that.
`packed_rows` are hundreds of rows in one record.
"""
