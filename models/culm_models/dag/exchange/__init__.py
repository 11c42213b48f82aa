"""One connection between two ends of DAG replication, without I/O (reference 6).

`connection`: `Exchange`, the state machine. `store`: what it asks of, and puts into, the end that it belongs
to. `events`: what came. `settings`: what one end says of itself, and its bounds. `space_exchange`: where it
stands with a space. `node_wants`, `shard_wants`: what is asked for. `needs`: what a node cannot do without.
`serving`: what is sent. `offers`: lists in frames, and long messages in short steps. `ranges`: chunks of a
shard. `unasked`: what came unasked.
"""
