"""The DAG of one space: heads, what is missing, and the shards that its nodes name (reference 3.2)."""

from collections.abc import Callable, Iterable

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.replica.node import ReplicaNode
from culm_topics.dag.records import HeadsRecord, first_links


class Space:
    """Appends and joins of one space. A node counts where it is in the space and not refused."""

    __slots__ = ("_named", "nodes", "shards")

    def __init__(self) -> None:
        self.nodes: set[Cid] = set()
        self.shards: dict[Cid, int] = {}
        """By each shard that is named: by how many nodes."""
        self._named: dict[Cid, int] = {}
        """By each parent that is named: by how many nodes."""

    def add(self, node: ReplicaNode) -> bool:
        """Take a node; whether it is new here."""
        if node.cid in self.nodes:
            return False
        self.nodes.add(node.cid)
        _count(self._named, node.parents, 1)
        _count(self.shards, node.shards, 1)
        return True

    def names(self, cid: Cid) -> bool:
        """Whether a node here builds on this one."""
        return cid in self._named

    def record(
        self,
        *,
        is_refused: Callable[[Cid], bool],
        is_here: Callable[[Cid], bool],
        is_opaque: Callable[[Cid], bool],
    ) -> HeadsRecord:
        """How the space stands; the questions are about nodes, shards, and shards."""
        opaque = [shard for shard in self.shards if is_opaque(shard)]
        return HeadsRecord(
            first_links(self.nodes - self._named.keys()),
            len(self.shards),
            first_links(one for one in self._named if one not in self.nodes and not is_refused(one)),
            first_links(one for one in self.shards if not is_opaque(one) and not is_here(one)),
            first_links(opaque),
        )


def _count(counts: dict[Cid, int], named: Iterable[Cid], by: int) -> None:
    for cid in named:
        counts[cid] = counts.get(cid, 0) + by
        if not counts[cid]:
            del counts[cid]
