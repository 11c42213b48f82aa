"""The logs as chains: state and rules of the job `logs`, without Spark.

Before the shuffle, stateless:
- `packing`: records of `entries` are checked and become packed rows, sorted out by shard;
- `splicing`: the record for `logs` cut out of the record of `entries`; `rows`: the packed form.

Behind it, one shard at a time:
- `step`: one micro-batch: rows and state in, rows and state out;
- `continuation`: which logs are simply continued, decided for all at once;
- `verdicts`: the rules for the others, entry by entry;
- `refusals`: what is refused, as records of `rejected`.

The state:
- `blocks`: many logs in one blob; `book`: the columns of all logs that a step touches;
- `skiplinks`: which hashes future skiplinks will name; `history`: what tells a repeat from a fork;
- `early`, `holding`: entries that came before their predecessors, and the bounds on them;
- `store`: what a step needs from whoever keeps the state; `settings`: its layout and bounds.
"""
