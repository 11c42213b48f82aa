"""One connection between two ends of DAG replication, without I/O (reference 6).

`connection`: `Exchange`, the state machine. `store`: what it asks of, and puts into, the end that it belongs
to. `events`: what came. `ranges`: which chunks of a shard are here. `settings`: what one end says of itself,
and its bounds.
"""
