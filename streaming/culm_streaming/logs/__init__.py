"""The job `logs`: logs as chains of entries. `job` is what Spark runs; all else is without Spark.

Before the shuffle, stateless:
- `packing`: records of `entries` are checked and become packed rows, sorted out by shard;
- `bare`: records of bare logs, whose payloads are no operations;
- `rows`: the packed form, with the record for `logs` cut out of the record of `entries`.

Behind it, one shard at a time:
- `step`: one micro-batch: rows and state in, rows and state out;
- `verdicts`: which logs are simply continued, decided for all at once; the others' rules, entry by entry;
- `fetching`: the first half of a fork's proof, read back.

The state:
- `book`: many logs in one blob, and what tells a repeat from a fork; the columns of all logs that a step
  touches, and which hashes future skiplinks will name; `settings`: layout and bounds;
- `early`: entries that came before their predecessors, and the bounds on them.
"""
