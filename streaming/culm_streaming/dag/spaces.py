"""The DAG of one space: heads, what is missing, and the shards that its nodes name (reference 3.2)."""

from collections.abc import Callable, Iterable

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.replica.node import ReplicaNode
from culm_topics.dag.records import HeadsRecord, first_links


class Space:
    """Appends and joins of one space. A node counts where it is in the space and not refused.

    All sets follow each change: what is told of a space costs what is told, not what the space holds.
    """

    __slots__ = ("_heads", "_missing_nodes", "_missing_shards", "_named", "_opaque", "nodes", "shards")

    def __init__(self) -> None:
        self.nodes: set[Cid] = set()
        self.shards: set[Cid] = set()
        """That are named."""
        self._named: set[Cid] = set()
        """Parents that are named."""
        self._heads: set[Cid] = set()
        self._missing_nodes: set[Cid] = set()
        self._missing_shards: set[Cid] = set()
        self._opaque: set[Cid] = set()

    def add(self, node: ReplicaNode) -> list[Cid] | None:
        """Take a node: the shards that nobody here named before; None where it is not new here."""
        cid = node.cid
        if cid in self.nodes:
            return None
        self.nodes.add(cid)
        self._missing_nodes.discard(cid)
        if cid not in self._named:
            self._heads.add(cid)
        for parent in node.parents:
            self._named.add(parent)
            self._heads.discard(parent)
            if parent not in self.nodes:
                self._missing_nodes.add(parent)
        new = [shard for shard in node.shards if shard not in self.shards]
        self.shards.update(new)
        return new

    def names(self, cid: Cid) -> bool:
        """Whether a node here builds on this one."""
        return cid in self._named

    def weigh(
        self, shards: Iterable[Cid], *, is_here: Callable[[Cid], bool], is_opaque: Callable[[Cid], bool]
    ) -> None:
        """Whether shards that are named are here, opaque or missing may be otherwise now."""
        for shard in shards:
            if shard not in self.shards:
                continue
            if is_opaque(shard):
                self._opaque.add(shard)
            elif is_here(shard):
                self._missing_shards.discard(shard)
            else:
                self._missing_shards.add(shard)

    def record(self, is_refused: Callable[[Cid], bool]) -> HeadsRecord:
        """How the space stands; the question is about nodes."""
        return HeadsRecord(
            first_links(self._heads),
            len(self.shards),
            first_links(one for one in self._missing_nodes if not is_refused(one)),
            first_links(self._missing_shards),
            first_links(self._opaque),
        )
