"""Replicas in memory over byte channels, for demos, tests, and programs without a store.

- `peer`: a complete replica with real connections.
- `copy`: reads everything that another replica holds, by a session that writes nothing.
"""
