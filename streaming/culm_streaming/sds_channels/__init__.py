"""The state of SDS channels by shard, without Spark: the rules and the layout behind the job `sds`.

- `step`: one shard and micro-batch, or its expired timer; `inputs`: what a record asks of its channel.
- `opened`: a channel taken out of state for a batch; `told`, `acks`: what it tells, as records.
- `state`: what is kept, by kind; `record`, `journal`: a channel in it; `wakes`: the shard's calendar;
  `buckets`: how small blobs share the state's values.
- `cache`: channels that a worker keeps in memory; `rows`: records as a step takes them.
- `owners`: whose a channel and its ids are; `filter_budget`: how much memory filters may take.
- `settings` of the state, `channel_settings` of a channel; `refusals`: why a record is refused.
"""
