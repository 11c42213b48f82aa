"""A folder of DAGs: SQLite for nodes and indexes, a file a shard, a file a spool.

`folder`: `DagFolder`, the one class that others use. `outcomes`: what became of what it was given.
`settings`: rules and quotas of one folder.
"""
