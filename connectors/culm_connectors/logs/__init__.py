"""Replicated logs at the edge.

- `replicated_logs`: the room put together. `hub`: the way in; durable, indexed, notified; and
  what goes to topics.
- `follow_entries`, `follow_logs`: what comes from their topics, live and as the truth.
- `index/`: the edge's own copy of them, in lmdb. `ranges/`: their sync range, in order, with fingerprints.
- `lost_entries/`: what expired before the job had read it, found and produced again.
- `warm_start/`: a start from `blocks`, and how an index is verified and mended by it.
- `check_pool`: entries checked in threads. `interchange`: logs as text. `metrics`: what Prometheus is told.
"""
