"""The job `sds`: SDS channels by shard. `job` is what Spark runs; all else is without Spark.

- `step`: one shard and micro-batch, or its expired timer; `inputs`: what a record asks of its channel.
- `channel_batch`: a channel taken out of state for a batch; `output_records`: what it says.
- `state`: what is kept, by kind, small blobs sharing values, and what is due when; `record`: a channel in it,
  with its journal, and the copies that a worker keeps in memory.
- `owners`: whose a channel and its ids are.
- `settings` of the state, `channel_settings` of a channel, and how much memory its filter may take.
"""
