"""The job `sds`: SDS channels by shard. Spark runs `job`; all other modules work without Spark.

- `step`: one shard and micro-batch, or its expired timer; `inputs`: the effect of a record on its channel.
- `channel_batch`: a channel loaded from state for a batch; `output_records`: its output.
- `state`: blobs by kind, with small ones sharing values, and a calendar of due channels; `record`: a channel
  in it, with its journal, and the copies that a worker keeps in memory.
- `owners`: the owners of a channel and its ids.
- `settings` of the state, `channel_settings` of a channel, and the memory limits of its filter.
"""
