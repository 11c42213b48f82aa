"""Walk over a DAG to find its present and missing blocks (reference 3.3).

`shard_blocks`: opening shards as blocks. `reach`: the links of a block, and the walk itself.
"""
