"""One connection between two ends of DAG replication, without I/O (reference 6).

`connection`: `Exchange`, the state machine. `store`: the interface to the store of the own end. `events`:
reports to the driver. `settings`: the settings and limits of the own end. `space_exchange`: the state of one
space. `node_wants`, `shard_wants`: missing nodes and shards. `needs`: the links that a node depends on.
`serving`: answers to requests. `offers`: splitting of lists into frames and of long messages into short
steps. `ranges`: chunks of a shard. `unasked`: unsolicited data.
"""
