"""The topics of Chotki.

- `catalogue`: the topics; `records/`: their keys and values; `cddl/`: the same shapes as CDDL.
"""
