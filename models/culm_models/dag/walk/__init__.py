"""What is here of a DAG and what is not (reference 3.3).

`links`: where a block links to. `shard_blocks`: shards, opened as blocks. `reach`: the walk itself.
"""
