"""A folder of DAGs: SQLite for nodes and indexes, a file a shard, a file a spool.

`folder`: `DagFolder`, the one class that others use. `outcomes`: what became of what it was given.
`settings`: rules and quotas. `tables`: the database. `node_table`: nodes as they come;
`judging`: publishes, by their proofs; `waiting`: what is missing, and who waits for it. `node_queries`: what
nodes say; `published`: order and states of an id. `shard_table`: whole shards, and how a
file is verified; `spools`: shards on their way; `blocked`: shards and spaces that are refused.
`exporting`: all of it as files, and back.
"""
