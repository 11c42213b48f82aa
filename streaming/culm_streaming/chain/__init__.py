"""The logs as chains: state and rules of the job `logs`, without Spark.

- `rows`: the packed form in which checked entries cross the shuffle; `packing` puts them there by shard.
- `admission`: one record of `entries` becomes a packed entry or a ready-made record of `rejected`.
- `skiplinks`: which hashes a log must remember because a future skiplink will name them.
- `blocks`: the state of many logs packed into one blob; `book`: the columns of all logs that a step touches.
- `early`: entries that arrived before their predecessors, and the bounds on them.
- `history`: which entry was accepted at which sequence number, to tell a repeat from a fork.
- `verdicts`: the rules for the one log that is not simply continued, entry by entry.
- `step`: one shard, one micro-batch: rows and state in, rows and state out.
- `refusals`: what is refused, as records of `rejected`.
- `store`: what `step` needs from whoever keeps the state, and a store in memory.
"""
