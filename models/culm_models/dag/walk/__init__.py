"""What is here of a DAG and what is not (reference 3.3).

`shard_blocks`: shards, opened as blocks. `reach`: where a block links to, and the walk itself.
"""
