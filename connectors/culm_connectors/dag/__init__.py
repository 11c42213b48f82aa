"""DAG replication and publishing at peers and at the edge of a deployment.

`store/`: a folder of nodes, UCANs, publishes and shards. `errors`.
"""
