"""Diffs between two replicas.

`diff` is the sender: what a snapshot holds that the peer lacks. `open_syncs` is the receiver: what waits
for its V. `progress` is how far either is.
"""
