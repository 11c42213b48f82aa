"""Paths that lead into a DAG, and what a reader needs to follow them without trusting anybody.

`resolve`: `CID/segment/…` to the block in which it ends, and what that is. `scopes`: the blocks that answer a
request of the trustless gateway.
"""
