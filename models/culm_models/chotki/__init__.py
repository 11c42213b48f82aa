"""Chotki, free of I/O: replicas of one database of typed fields that merge.

Version vectors record which changes each replica holds.

Bytes: `tlv` (records and their incremental, bounded reader), `zip` (integers, floats and pairs), `ids`
(IDs, their text, store keys and blocks), `packets/`. `rdx/`: values that merge. `log0` is the content of a
fresh replica; `dump` prints a store as text, `compare` finds the differences between two stores,
`unique_values` finds duplicate values that the Go replica refuses. `errors` has a class for each code.
`compat` chooses between Culm's own behaviour and that of the Go replica, if they differ.

State machines: `sessions/` is one connection, `sync/` the diffs from one replica to another. `store` is the
interface that they need of a store, `replica` a complete peer in memory that can serve as a hub. `settings`
configure them; `events` are reported by them.
"""
