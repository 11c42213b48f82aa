"""One connection between two replicas.

`session` is its state machine. `sync_receiver` takes the peer's diffs, `own_diff` makes this side's,
`outgoing` queues the records to send. `clock` keeps the times of pings and time-outs, and `pings` sends and
answers pings. `own_ids` handles ids of this replica's source that return. `host` is the interface that a
session needs of its replica.
"""
