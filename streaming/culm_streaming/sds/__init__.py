"""The job `sds`: SDS channels by shard. `job` is what Spark runs; all else is without Spark.

- `step`: one shard and micro-batch, or its expired timer; `inputs`: what a record asks of its channel.
- `channel_batch`: a channel taken out of state for a batch; `output_records`, `acks`: what it says.
- `state`: what is kept, by kind, small blobs sharing values; `record`: a channel in it, with its journal;
  `due_calendar`: what is due when.
- `cache`: channels that a worker keeps in memory; `rows`: records as a step takes them.
- `owners`: whose a channel and its ids are.
- `settings` of the state, `channel_settings` of a channel, and how much memory its filter may take.
"""
