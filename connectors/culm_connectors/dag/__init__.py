"""DAG replication and publishing at peers and at the edge of a deployment.

- `store/`: a folder of nodes, UCANs, publishes and shards. `author`: what a writer adds to it; `cars`:
  CARs of others, in and out; `collecting`: shards that nothing needs
- `room`: what doors are offered by a folder; `watches`: who is woken by a change; `edge/`: a room with Kafka
  behind it
- `connections`: QUIC over either room; `progress` says how far one is; `http/`: the other door; `tokens`:
  UCANs that are shown at either
- `peer`: `DagPeer`, one folder with its connections; `protocol`: the edge in a connector; `deployment`: what
  an operator does to a deployment's topics
- `settings`; `errors`
"""
