"""The graph of a document's operations: connected ones in their linear order, and those that wait.

An operation is connected once all operations that it names are connected; the create is from the start. One
that follows all heads is placed behind the last of them, which is the end of the order as a rule: that takes
a constant time. Any other one may change the order, but only behind a *bottleneck*: an operation that is
applied once and before which no later one names any. `settle` walks once from the last bottleneck before the
change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from culm_models.p2panda.documents.linear_order import Node, last_places, walk
from culm_models.p2panda.operations.identifiers import OperationId


class Graph:
    """The operations of one document, by their ids; the first one that is added is its create."""

    def __init__(self) -> None:
        self.nodes: dict[OperationId, Node] = {}
        """All operations, also those that wait."""
        self.order: list[Node] = []
        """The connected operations in their linear order, as of the last `settle`."""
        self.heads: set[OperationId] = set()
        """Connected operations that no connected operation names."""
        self._waiting: dict[OperationId, list[Node]] = {}
        """Operations by the one that they wait for; each waits for one at a time."""
        self.bottlenecks: list[int] = []
        """Positions of bottlenecks, ascending, as of the last `settle`."""
        self._changed_at: int | None = None
        """Lowest position after which the order may have changed."""
        self._unplaced: list[Node] = []
        """Connected operations that have no position yet."""

    def add(self, node: Node) -> None:
        """Add an operation that is not here yet, and connect it and what waits for it, if possible."""
        self.nodes[node.id] = node
        due = [node]
        while due:
            node = due.pop()
            while node.connected < len(node.previous) and self.is_connected(node.previous[node.connected]):
                node.connected += 1
            if node.connected < len(node.previous):
                self._waiting.setdefault(node.previous[node.connected], []).append(node)
                continue
            self._connect(node)
            due += self._waiting.pop(node.id, ())

    def is_connected(self, operation_id: OperationId) -> bool:
        """Return whether an operation is here and connected to the create."""
        node = self.nodes.get(operation_id)
        return node is not None and node.is_connected

    def waiting(self) -> Iterator[Node]:
        """Iterate over the operations that wait, in no particular order."""
        for nodes in self._waiting.values():
            yield from nodes

    def missing(self) -> set[OperationId]:
        """Return the ids that waiting operations name and that are not here."""
        return {i for node in self.waiting() for i in node.previous if i not in self.nodes}

    def forget(self, operation_ids: Collection[OperationId]) -> None:
        """Remove operations that wait."""
        for operation_id in operation_ids:
            del self.nodes[operation_id]
        waiting = list(self.waiting())
        self._waiting.clear()
        for node in waiting:
            if node.id in self.nodes:
                self.add(node)

    def settle(self) -> int:
        """Bring `order` up to date. Returns the position from which it may have changed."""
        if self._changed_at is None:
            return len(self.order)
        while self.bottlenecks[-1] > self._changed_at:
            self.bottlenecks.pop()
        start = self.bottlenecks.pop()
        remaining = {node.id for node in self.order[start:]}
        remaining.update(node.id for node in self._unplaced)
        walked = walk(self.order[start], remaining)
        self.order[start:] = last_places(walked)
        for position in range(start, len(self.order)):
            self.order[position].position = position
            self.order[position].is_repeated = False
        if len(walked) > len(self.order) - start:
            for node, times in Counter(walked).items():
                node.is_repeated = times > 1
        self.bottlenecks += self._bottlenecks_from(start)
        self._changed_at = None
        self._unplaced.clear()
        return start

    def ancestors(self, heads: Iterable[OperationId]) -> set[OperationId]:
        """Return the ids of these connected operations and of all that they follow."""
        found: set[OperationId] = set()
        due = list(heads)
        while due:
            operation_id = due.pop()
            if operation_id not in found:
                found.add(operation_id)
                due += self.nodes[operation_id].previous
        return found

    def _connect(self, node: Node) -> None:
        comes_last = (
            self._changed_at is None
            and len(node.previous) == len(self.heads)
            and self.heads.issuperset(node.previous)
            and (not self.order or not (self.order[-1].successors or self.order[-1].is_repeated))
        )
        node.is_connected = True
        for operation_id in node.previous:
            self.nodes[operation_id].successors.append(node)
        self.heads.difference_update(node.previous)
        self.heads.add(node.id)
        if comes_last:
            node.position = len(self.order)
            self.bottlenecks.append(node.position)
            self.order.append(node)
            return
        self._unplaced.append(node)
        positions = [self.nodes[operation_id].position for operation_id in node.previous]
        changed_at = min((position for position in positions if position >= 0), default=len(self.order))
        self._changed_at = changed_at if self._changed_at is None else min(self._changed_at, changed_at)

    def _bottlenecks_from(self, start: int) -> list[int]:
        """Return the positions of bottlenecks from `start` on, which is one itself."""
        bottlenecks: list[int] = []
        named_from = len(self.order)
        for node in reversed(self.order[start:]):
            if named_from >= node.position and not node.is_repeated:
                bottlenecks.append(node.position)
            named_from = min([named_from, *(self.nodes[i].position for i in node.previous)])
        bottlenecks.reverse()
        return bottlenecks
