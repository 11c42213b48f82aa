"""The sync range at the edge: logs in order with fingerprints of any part, kept up while logs grow.

| module | what it holds |
|---|---|
| columns | sorted logs as numpy columns with prefix sums; immutable |
| overlay | changes over such columns; applying more of them, merging them in; immutable |
| index | `RangeIndex`: the logs of one schema, kept up |
| snapshot | `RangeSnapshot`: one moment of it as the `OrderedSet` of a reconciliation |
| snapshots | snapshots over any of the indexes, several as one sorted set, under any lift |
| blocks | sums by block, to compare with the `blocks` topic |
"""

from culm_connectors.logs.ranges.blocks import BlockSums, block_starts, block_sums
from culm_connectors.logs.ranges.index import LayerLimits, RangeIndex
from culm_connectors.logs.ranges.snapshot import RangeSnapshot
from culm_connectors.logs.ranges.snapshots import Snapshots

__all__ = [
    "BlockSums",
    "LayerLimits",
    "RangeIndex",
    "RangeSnapshot",
    "Snapshots",
    "block_starts",
    "block_sums",
]
