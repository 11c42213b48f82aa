"""The job `logs`: logs as chains of entries. Spark runs `job`; all other modules work without Spark.

Before the shuffle, stateless:
- `packing`: checks records of `entries` and turns them into packed rows, by shard;
- `bare`: records of bare logs, whose payloads are not operations;
- `rows`: the packed form, with the record for `logs` cut out of the record of `entries`.

After it, one shard at a time:
- `step`: one micro-batch: rows and state in, rows and state out;
- `validation`: logs that are simply continued, decided for all at once; the rules for other logs, by entry;
- `fetching`: the first half of a fork's proof, read back.

The state:
- `log_table`: many logs in one blob, and the data that distinguishes a repeat from a fork; the columns of all
  logs that a step touches, and the hashes that future skiplinks will name; `settings`: layout and limits;
- `early`: entries that arrived before their predecessors, and their limits.
"""
