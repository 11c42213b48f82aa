"""p2panda replication, free of I/O: its data, its messages and its session rules.

`peer` is the door, over a `store` (`settings` and `events` are what passes it;
`ingest` whether an entry may join the logs). `operations/`: what an entry's payload says. `wire/`:
messages and bytes. `sessions/`: the rules of a link. `reconciliation/`: sets of log heights. `errors`
has a class for each rule.
"""
