"""Store of nodes in memory (reference 3.1, 3.2): missing parents, refused descendants, heads and states.

Nodes may be added in any order; the result does not depend on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from culm_models.dag.blocks.cid import DAG_CBOR, Cid, cid_of
from culm_models.dag.bounds import DEFAULT_BOUNDS, DagBounds
from culm_models.dag.errors import (
    ChainMixed,
    DagError,
    NodeMissing,
    NothingToJoin,
    PriorRefused,
    PublishIdChanged,
)
from culm_models.dag.replica.codec import decode_node, encode_join
from culm_models.dag.replica.node import PublishChange, ReplicaNode


@dataclass(frozen=True, slots=True)
class Fallen:
    """A node that was accepted while its parents were missing and is now refused."""

    cid: Cid
    error: DagError


@dataclass(frozen=True, slots=True)
class DagState:
    """The state of some nodes: all shards named by them and their ancestors, and the missing ancestors."""

    shards: frozenset[Cid]
    missing: frozenset[Cid]
    broken: bool
    """Whether a publish or a refused node is among the ancestors. No later node can repair that."""


class ReplicaStore:
    """Replica nodes by CID, including publishes, whose chains have rules but do not take part in states."""

    def __init__(self, *, legacy: bool = False, bounds: DagBounds = DEFAULT_BOUNDS) -> None:
        self._legacy = legacy
        self._bounds = bounds
        self._nodes: dict[Cid, ReplicaNode] = {}
        self._refused: dict[Cid, DagError] = {}
        # For each parent, held or missing: the held nodes that name it as prior or fork.
        self._children: dict[Cid, set[Cid]] = {}

    @property
    def nodes(self) -> dict[Cid, ReplicaNode]:
        """All nodes that are held and not refused, including publishes."""
        return self._nodes

    @property
    def refused(self) -> dict[Cid, DagError]:
        """All nodes that were refused permanently, with the error."""
        return self._refused

    def add(self, data: bytes) -> tuple[ReplicaNode, list[Fallen]]:
        """Add a node. Returns it with the nodes that are now refused because of it.

        Raises the `DagError` with which the node is refused permanently.
        """
        cid = cid_of(DAG_CBOR, data)
        if cid in self._refused:
            raise self._refused[cid]
        if cid in self._nodes:
            return self._nodes[cid], []
        try:
            node = decode_node(data, legacy=self._legacy, bounds=self._bounds)
        except DagError as error:
            self.refuse(cid, error)
            raise
        return node, self.put(node)

    def put(self, node: ReplicaNode) -> list[Fallen]:
        """Add a node that was decoded elsewhere with the same settings. Returns and raises as `add` does."""
        cid = node.cid
        if cid in self._refused:
            raise self._refused[cid]
        if cid in self._nodes:
            return []
        try:
            self._check_parents(node)
        except DagError as error:
            self.refuse(cid, error)
            raise
        self._nodes[cid] = node
        for parent in node.parents:
            self._children.setdefault(parent, set()).add(cid)
        fallen: list[Fallen] = []
        for child in sorted(self._children.get(cid, ())):
            if child in self._nodes:
                try:
                    self._check_parents(self._nodes[child])
                except DagError as error:
                    fallen += self.refuse(child, error)
        return fallen

    def refuse(self, cid: Cid, error: DagError) -> list[Fallen]:
        """Refuse a node permanently, with all nodes that build on it.

        Returns these nodes and their errors.
        """
        fallen: list[Fallen] = []
        waiting = [(cid, error)]
        while waiting:
            at, why = waiting.pop()
            if at in self._refused:
                continue
            self._refused[at] = why
            node = self._nodes.pop(at, None)
            if node is not None:
                for parent in node.parents:
                    self._drop_child(parent, at)
            fallen.append(Fallen(at, why))
            below = PriorRefused(f"{at} was refused")
            waiting += [(child, below) for child in self._children.pop(at, ())]
        return fallen

    def _drop_child(self, parent: Cid, child: Cid) -> None:
        children = self._children.get(parent)
        if children is not None:
            children.discard(child)
            if not children:
                del self._children[parent]

    def _check_parents(self, node: ReplicaNode) -> None:
        parents = node.parents
        if self._refused:
            for parent in parents:
                if parent in self._refused:
                    raise PriorRefused(f"{parent} was refused")
        here = [held_parent for parent in parents if (held_parent := self._nodes.get(parent)) is not None]
        is_publish = node.is_publish
        if any(parent.is_publish != is_publish for parent in here):
            raise ChainMixed("publishes build on publishes, and nothing else does")
        if is_publish:
            ids = {member.change.id for member in (node, *here) if isinstance(member.change, PublishChange)}
            if len(ids) > 1:
                raise PublishIdChanged("the prior publishes to another id")

    def children_of(self, cid: Cid) -> list[Cid]:
        """Return the held nodes that name a node as prior or fork, ascending."""
        return sorted(self._children.get(cid, ()))

    def discard(self, cid: Cid) -> None:
        """Remove a node as if it had never been added."""
        node = self._nodes.pop(cid)
        for parent in node.parents:
            self._drop_child(parent, cid)

    def missing_parents(self, node: ReplicaNode) -> list[Cid]:
        """Return the prior and forks of a node that are missing."""
        return [parent for parent in node.parents if parent not in self._nodes]

    def heads(self) -> list[Cid]:
        """Return the appends and joins that no other held node builds on, ascending."""
        return sorted(
            cid for cid, node in self._nodes.items() if not node.is_publish and cid not in self._children
        )

    def state(self, roots: Iterable[Cid] | None = None) -> DagState:
        """Return the state of some nodes and their ancestors; by default, of all heads."""
        shards: set[Cid] = set()
        missing: set[Cid] = set()
        broken = False
        for cid, node in self._below(self.heads() if roots is None else roots):
            if node is not None and not node.is_publish:
                shards.update(node.shards)
            elif node is not None or cid in self._refused:
                broken = True
            else:
                missing.add(cid)
        return DagState(frozenset(shards), frozenset(missing), broken)

    def _below(self, roots: Iterable[Cid]) -> Iterator[tuple[Cid, ReplicaNode | None]]:
        """Yield nodes and all their ancestors, each once, with None for missing nodes. Does not recurse."""
        stack = list(roots)
        seen = set(stack)
        while stack:
            cid = stack.pop()
            node = self._nodes.get(cid)
            yield cid, node
            if node is None or node.is_publish:
                continue
            for parent in node.parents:
                if parent not in seen:
                    seen.add(parent)
                    stack.append(parent)

    def join(self, heads: Iterable[Cid] | None = None) -> ReplicaNode:
        """Build the join of heads (by default all), without heads that other heads build on. Does not add it.

        Raises `NodeMissing` if a head or one of its ancestors is missing, and `NothingToJoin` if fewer than
        two diverging heads remain.
        """
        wanted = set(self.heads() if heads is None else heads)
        above = [cid for cid in wanted if cid in self._nodes and not self._nodes[cid].is_publish]
        if len(above) < len(wanted) or self.state(wanted).missing:
            raise NodeMissing("a head, or a node below one, is not here")
        parents = {parent for cid in above for parent in self._nodes[cid].parents}
        wanted -= {cid for cid, _ in self._below(parents)}
        if len(wanted) < 2:
            raise NothingToJoin("fewer than two heads that diverge")
        return encode_join(wanted)
