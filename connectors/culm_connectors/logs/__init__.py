"""Replicated logs at the edge.

- `replicated_logs`: the parts put together. `hub`: the way in (durable, indexed, notified) and the
    producer of log topics.
- `follow_entries`, `follow_logs`: the readers of `entries` (live) and of `logs` (authoritative).
- `index/`: the edge's own copy of the logs, in lmdb. `ranges/`: its sync ranges, sorted, with fingerprints.
- `lost_entries/`: finds entries that expired before the job had read them, and produces them again.
- `warm_start/`: starts from `blocks`; verifies and repairs an index by it.
- `check_pool`: entries checked in threads. `interchange`: logs as text. `metrics`: Prometheus metrics.
"""
