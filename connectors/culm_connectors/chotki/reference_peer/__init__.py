"""Replicas in memory over byte channels, for demos, tests, and programs that want no store.

- `peer`: a whole replica, which calls and is called.
- `copy`: everything that another replica holds, read by one session that writes nothing.
"""
