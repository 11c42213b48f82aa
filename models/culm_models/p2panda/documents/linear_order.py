"""The order in which the operations of a document are applied.

The order is a depth-first walk over the graph from the create, which every node computes alike. Among the
successors of an operation, the walk goes on with the one that has the lowest id and puts the others on a
stack, the highest on top. If the lowest one has several predecessors, it is not entered on the way: it goes
on top of the stack once all of them are placed, and otherwise is left to the path that completes them. In
both cases the walk continues with the top of the stack.

The order is not append-only: an operation that arrives late may come between two others, and reorder them. It
is not topological either: an operation with several predecessors that was put on the stack as one of the
others is placed when it comes off, whether or not all of them are placed. Third, an operation that names
another one and one before it, as no client does, may be put on the stack twice. It is then applied each time
when it comes off, so that its last place decides. p2panda-rs does the same, and documents are equal only if
the order is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from culm_models.p2panda.operations.identifiers import OperationId


@dataclass(slots=True, eq=False)
class Node:
    """An operation in the graph of its document, without its values.

    `names` are the fields that it sets; None if it deletes the document. `is_connected` tells whether all
    operations before it are here, up to the create, and `connected` is the number of the first of `previous`
    that are known to be connected. `successors` are connected operations that name this one.
    `position` is its index in the linear order; -1 while it has none. `is_repeated` tells whether it is
    applied more than once.
    """

    id: OperationId
    author: bytes
    previous: tuple[OperationId, ...]
    names: tuple[str, ...] | None
    is_connected: bool = False
    connected: int = 0
    successors: list[Node] = field(default_factory=list)
    position: int = -1
    is_repeated: bool = False


def walk(start: Node, remaining: set[OperationId]) -> list[Node]:
    """Return `start` and the operations of `remaining` that follow it, in the order in which to apply them.

    An operation may be returned several times. Other operations count as placed before. The ids of the
    operations returned are removed from `remaining`. The time is linear in the number of operations and of
    the ones that they name, apart from the sorting of ids: authors choose both.
    """
    order: list[Node] = []
    stack = [start]
    remaining.add(start.id)
    left: dict[OperationId, Node] = {}
    """Successors that were left to another path, by the predecessor at which they were left."""
    placed: dict[OperationId, int] = {}
    """Numbers of the first predecessors of an operation that are known to be placed."""
    while stack:
        node = stack.pop()
        while True:
            order.append(node)
            if node.id in remaining:
                remaining.remove(node.id)
                following = [successor for successor in node.successors if successor.id in remaining]
                following.sort(key=_id)
            else:
                # Its other successors went on the stack above this repeat, and were placed since.
                following = [left[node.id]] if node.id in left and left[node.id].id in remaining else []
            if not following:
                break
            lowest, *others = following
            stack.extend(others)
            if len(lowest.previous) > 1:
                first, last = placed.get(lowest.id, 0), len(lowest.previous)
                while first < last and lowest.previous[first] not in remaining:
                    first += 1
                placed[lowest.id] = first
                if first == last:
                    stack.append(lowest)
                else:
                    left[node.id] = lowest
                break
            node = lowest
    return order


def last_places(walked: Sequence[Node]) -> list[Node]:
    """Return each operation of a walk once, at its last place."""
    return list(dict.fromkeys(reversed(walked)))[::-1]


def _id(node: Node) -> OperationId:
    return node.id
