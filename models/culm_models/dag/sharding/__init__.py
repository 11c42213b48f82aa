"""Cutting a DAG into shards of a wanted size (reference 3.5): same input, same CIDs, everywhere.

`cut`: the shards one by one, so that none but the current one is held. `appends`: the replica nodes that
name them.
"""
