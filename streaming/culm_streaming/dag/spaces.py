"""The DAG of one space: heads, missing nodes and shards, named shards (reference 3.2)."""

from collections.abc import Callable, Iterable

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.replica.node import ReplicaNode
from culm_topics.dag.records import HeadsRecord, first_links


class Space:
    """Appends and joins of one space. A node counts if it is in the space and not refused.

    All sets are updated with each change: the cost of a change depends on its size, not on that of the space.
    Their keys are the bytes of CIDs, which are faster to look up.
    """

    __slots__ = ("_heads", "_missing_nodes", "_missing_shards", "_named", "_opaque", "_shards", "nodes")

    def __init__(self) -> None:
        self.nodes: dict[bytes, ReplicaNode] = {}
        self._named: set[bytes] = set()
        self._shards: set[bytes] = set()
        self._heads: dict[bytes, Cid] = {}
        self._missing_nodes: dict[bytes, Cid] = {}
        self._missing_shards: dict[bytes, Cid] = {}
        self._opaque: dict[bytes, Cid] = {}

    def add(self, node: ReplicaNode) -> list[Cid]:
        """Add a node that is new here; returns the shards that no node here named before."""
        cid = node.cid
        raw = cid.raw
        self.nodes[raw] = node
        self._missing_nodes.pop(raw, None)
        if raw not in self._named:
            self._heads[raw] = cid
        for parent in node.parents:
            above = parent.raw
            if above not in self._named:
                self._named.add(above)
                self._heads.pop(above, None)
                if above not in self.nodes:
                    self._missing_nodes[above] = parent
        new = [shard for shard in node.shards if shard.raw not in self._shards]
        self._shards.update([shard.raw for shard in new])
        return new

    def names(self, cid: Cid) -> bool:
        """Whether a node here builds on this one."""
        return cid.raw in self._named

    def weigh(
        self, shards: Iterable[Cid], *, is_here: Callable[[Cid], bool], is_opaque: Callable[[Cid], bool]
    ) -> None:
        """Update whether named shards are held, opaque or missing."""
        for shard in shards:
            raw = shard.raw
            if raw not in self._shards:
                continue
            if is_opaque(shard):
                self._opaque[raw] = shard
            elif is_here(shard):
                self._missing_shards.pop(raw, None)
            else:
                self._missing_shards[raw] = shard

    def record(self, is_refused: Callable[[Cid], bool]) -> HeadsRecord:
        """Return the state of the space; `is_refused` is called with nodes."""
        return HeadsRecord(
            first_links(self._heads.values()),
            len(self._shards),
            first_links(node for node in self._missing_nodes.values() if not is_refused(node)),
            first_links(self._missing_shards.values()),
            first_links(self._opaque.values()),
        )
