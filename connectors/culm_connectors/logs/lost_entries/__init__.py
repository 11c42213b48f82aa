"""Repair of entries that the index holds and that cannot reach `logs`: they expired on `entries` unread.

- `survey`: finds them by the index, the two topics and the job's position.
- `sending`: produces them again.
- `watch`: does both in a running connector when a log has not grown for long; `settings`: its delay and rate.
- `stopped_edge`: does both once, over the folder of a connector that is stopped.
"""
