"""p2panda replication without I/O: its data, its messages and its session rules.

`peer` is the entry point; it works on a `store`, takes `settings` and returns `events`. `ingest` checks
whether an entry may join the logs. `operations/` reads and writes entries' payloads; `documents/` reduces
operations to documents. `wire/` has messages and their bytes. `sessions/` has the rules of a link.
`reconciliation/` has sets of log heights. `errors` has a class for each rule.
"""
