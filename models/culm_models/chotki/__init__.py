"""Chotki, free of I/O: replicas of one database of typed fields that merge; vectors say who lacks what.

Bytes: `tlv` (records and their incremental, bounded reader), `zip` (integers, floats and pairs), `ids`
(IDs, their text, store keys and blocks), `packets/`. `rdx/`: values that merge. `log0` is what a fresh
replica holds; `dump` is a store as text, `compare` what two stores differ in, `unique_values` what Go refuses
twice. `errors` has a class for each code. `compat` chooses between our own behaviour and that of the Go
replica, where they differ.

Machines: `sessions/` is one connection, `sync/` diffs from one replica to another. `store` is what they
need of a store, `replica` a whole peer in memory, a hub among others. `settings`, `events`: what goes in
and comes out.
"""
