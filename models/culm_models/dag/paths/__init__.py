"""Paths into a DAG, and the blocks that a reader needs to verify them.

`resolve`: follows `CID/segment/…` to the block in which it ends and determines its kind. `scopes`: the blocks
that answer a request to the trustless gateway.
"""
