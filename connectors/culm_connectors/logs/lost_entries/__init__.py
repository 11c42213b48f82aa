"""Entries that the index holds and that cannot get to `logs` any more: they expired on `entries` unread.

- `survey`: finds them, by what the index, the two topics and the job's position say.
- `sending`: produces them again.
- `watch`: does both in a running connector when a log has stood for long; `settings`: when and how fast.
- `stopped_edge`: does both once, over the folder of a connector that is stopped.
"""
