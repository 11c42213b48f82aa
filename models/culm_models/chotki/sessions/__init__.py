"""One connection between two replicas.

`session` is its state machine. `sync_receiver` takes the peer's diffs, `own_diff` makes ours, `outgoing` is
what there is to send, `clock` knows when to ping and whom not to wait for any longer. `own_ids` is what comes
back of the own source. `host` says what a session needs of the replica that it belongs to.
"""
