"""DAG replication and publishing at peers and at the edge of a deployment.

`store/`: a folder of nodes, UCANs, publishes and shards. `peer`: `DagPeer`, one folder with its connections;
`remote_peer` is one of them, `session` drives it, `progress` says how far it is. `author`: what a writer adds
to a folder; `files/`: content as files of others, CARs among them; `collecting`: shards that nothing needs;
`ucan_finder`: UCANs that are here. `room`: what doors are offered; `turns`: long work in short steps;
`watches`: who is woken by a change; `folder_room`: a room over one folder; `http/`: the other door;
`edge/`: a room with Kafka behind it; `protocol`: that in a connector.
`settings`; `errors`.
"""
