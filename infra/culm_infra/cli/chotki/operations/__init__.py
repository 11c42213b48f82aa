"""How the deployment and its replicas stand.

- `status`, with what `edge_metrics` asks edges. `sources`: whose source numbers are, and to `retire` one.
- `dump` and `verify`, which also read a running `replica`.
"""
