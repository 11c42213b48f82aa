"""A folder of DAGs: SQLite for nodes and indexes, a file for each shard and for each spool.

- `folder`: `DagFolder`, the class for use from outside; `outcomes`: its results; `settings`: rules and quotas
- `tables`: the database; `node_table`: incoming nodes; `node_rows`: their rows, places and heads; `judging`:
validation of publishes by their proofs, at their receipts;
`waiting`: missing nodes, and the nodes that wait for them; `node_queries`: queries about nodes;
`published`: order and states of an id
- `shard_table`: complete shards, and verification of their files; `spools`: incomplete shards; `blocked`:
shards and spaces that are refused
- `exporting`: export of a folder to files, and import
"""
