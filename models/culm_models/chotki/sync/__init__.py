"""Diffs between two replicas.

`diff` is the sender: it sends what a snapshot holds and the peer is missing. `open_syncs` is the receiver: it
keeps syncs until their V. `progress` is the progress of either.
"""
