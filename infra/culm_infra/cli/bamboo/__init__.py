"""``culm bamboo``: Bamboo logs in a folder, and partial replication of them between folders.

- `group` names the commands; `folder` has their common options and the form of logs
- `publish`, `sync`, `serve`: making logs and exchanging them; `syncing` is what `sync` does
- `rules`: policy, pause, resume
- `looking`: coverage, proposals, verify; `bundle`: export, import, drop; `decode`: captured bytes
- `demo`: `culm demo bamboo`
"""
