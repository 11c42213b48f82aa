"""The job `coverage`: which entries and payloads of Bamboo logs are held, as sets, by peer and log.

What peers hold is what they said (`holdings`). What the deployment holds lies in `logs`, `fragments` and
`payloads`; it stands under the all-zero peer id, with which of its entries a whole certificate pool proves.
`job` is what Spark runs; all else is without Spark.

Before the shuffle, stateless:
- `packing`: records are checked and reduced to rows by shard; `rows`: their packed form.

Behind it, one shard at a time, in two stages:
- `payloads`: which payloads are whole, and which entries wait for one: sharded by the payload's hash;
- `step`: what is held of each log: sharded by log; `held_log`: one row of it; `provable`: what pools prove.

The state: `state`, many rows in one blob; `settings`: its layout and bounds.
"""
