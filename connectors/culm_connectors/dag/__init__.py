"""DAG replication and publishing, for peers and for the edge of a deployment.

- `store/`: a folder of nodes, UCANs, publishes and shards. `author`: adds a writer's nodes to it; `cars`:
imports and exports CARs; `collecting`: finds shards that nothing needs
- `service`: the interface of a folder for doors; `watches`: wakes readers of an id when it changes; `edge/`:
a service with Kafka behind it
- `connections`: QUIC over either service; `progress`: progress of one connection; `http/`: the HTTP door;
`tokens`: UCANs that are shown at either door
- `peer`: `DagPeer`, one folder with its connections; `protocol`: the edge in a connector; `deployment`: an
operator's commands for a deployment's topics
- `settings`; `errors`
"""
