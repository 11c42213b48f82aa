"""The job `coverage`: the entries and payloads of Bamboo logs that are held, as sets, by peer and log.

Peers state their holdings (`holdings`). The deployment's entries and payloads are in `logs`, `fragments` and
`payloads`; its coverage is written under the all-zero peer id, with those of its entries that a whole
certificate pool proves. `job` is the code that Spark runs; the other modules work without Spark.

Before the shuffle, stateless:
- `packing`: records are checked and reduced to rows by shard; `rows`: their packed form.

After the shuffle, one shard at a time, in two stages:
- `payloads`: whole payloads, and entries that wait for one; sharded by the payload's hash.
- `step`: the coverage of each log; sharded by log. `held_log`: one row. `provable`: entries that pools prove.

The state: `state`, many rows in one blob; `settings`: its layout and limits.
"""
