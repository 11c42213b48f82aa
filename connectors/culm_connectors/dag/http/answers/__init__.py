"""Handlers of the door, by subject.

- `shards`; `nodes` (with publishes, and queries for missing nodes); `published` (with events)
- `gateway`: reads by CID, as a block, a CAR, or the `content` at a path; both use `reading`
- `schemas`: models of the JSON answers
"""
