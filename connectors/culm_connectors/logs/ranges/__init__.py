"""The sync range at the edge: sorted logs with fingerprints of any part, updated while logs grow.

| module | content |
|---|---|
| columns | sorted logs as numpy columns with prefix sums; immutable |
| overlay | changes over such columns, how they are applied and merged; immutable |
| index | `RangeIndex`: the logs of one schema, updated while they grow |
| snapshot | `RangeSnapshot`: a snapshot of it as the `OrderedSet` of a reconciliation |
| snapshots | snapshots over one or more indexes as one sorted set, under any lift |
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
