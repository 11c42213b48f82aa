"""Missing nodes that the other end may have: queued, requested, and received but not yet settled."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TypeAlias

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.exchange.needs import may_be_node
from culm_models.dag.exchange.settings import RecentSet
from culm_models.dag.exchange.store import ExchangeStore
from culm_models.dag.wire.messages import AckStatus

PlacedNode: TypeAlias = tuple[bytes, Cid]
"""A space and the CID of a node in it."""


class NodeWants:
    """The missing nodes of all spaces of one connection."""

    def __init__(self, store: ExchangeStore, max_nodes: int) -> None:
        self._store = store
        self._max_nodes = max_nodes
        self._queue: deque[PlacedNode] = deque()
        # Nodes to request. A cancelled node stays in the queue, but is no longer in this set.
        self._waiting: set[PlacedNode] = set()
        self._asked: set[PlacedNode] = set()
        self._unsettled: set[PlacedNode] = set()
        self._absent: RecentSet[PlacedNode] = RecentSet(max_nodes)
        self._put_off: list[PlacedNode] = []
        self._came_since = False
        self._counts: dict[bytes, int] = {}
        self._overflowed: set[bytes] = set()

    @property
    def in_flight(self) -> int:
        """Number of nodes that are requested and have not arrived."""
        return len(self._asked)

    def is_idle(self, space: bytes) -> bool:
        """Whether no node of a space is missing, in flight or unsettled."""
        return not self._counts.get(space) and space not in self._overflowed

    def add(self, space: bytes, cids: Sequence[Cid]) -> Sequence[Cid]:
        """Queue the missing nodes among `cids`, each at most once per connection.

        Returns the nodes that exceed the capacity.
        """
        for number, cid in enumerate(cids):
            placed_node = (space, cid)
            if placed_node in self._waiting or placed_node in self._asked or placed_node in self._unsettled:
                continue
            if placed_node in self._absent or not may_be_node(cid) or self._store.has_node(space, cid):
                continue
            if len(self._waiting) + len(self._asked) >= self._max_nodes:
                # The store knows what is missing; it is queried again once there is capacity.
                self._overflowed.add(space)
                return cids[number:]
            self._waiting.add(placed_node)
            self._queue.append(placed_node)
            self._count(space, 1)
        return ()

    def is_wanted(self, placed_node: PlacedNode) -> bool:
        """Whether a node is queued or requested."""
        return placed_node in self._waiting or placed_node in self._asked

    def is_unsettled(self, placed_node: PlacedNode) -> bool:
        """Whether a node has been received and its result is not known yet."""
        return placed_node in self._unsettled

    def take(self, placed_node: PlacedNode) -> None:
        """Record that a node has been received."""
        if self.is_wanted(placed_node):
            self._waiting.discard(placed_node)
            self._asked.discard(placed_node)
        else:
            self._count(placed_node[0], 1)
        self._unsettled.add(placed_node)
        self._came_since = True

    def settle(self, placed_node: PlacedNode, status: AckStatus) -> bool:
        """Record the result of a received node. Returns False if the node is not unsettled."""
        if placed_node not in self._unsettled:
            return False
        self._unsettled.remove(placed_node)
        if status in (AckStatus.REFUSED, AckStatus.LATER):
            self._absent.add(placed_node)
        self._count(placed_node[0], -1)
        return True

    def next_to_ask(self, limit: int) -> list[PlacedNode]:
        """Take up to `limit` nodes of one space to request now. They count as in flight from here on."""
        if not self._queue and not self._waiting:
            self._look_again()
        taken: list[PlacedNode] = []
        while self._queue and len(taken) < limit:
            placed_node = self._queue[0]
            if taken and placed_node[0] != taken[0][0]:
                break
            self._queue.popleft()
            if placed_node in self._waiting:
                self._waiting.remove(placed_node)
                self._asked.add(placed_node)
                taken.append(placed_node)
        return taken

    def _look_again(self) -> None:
        """Queue nodes that were postponed or that exceeded the capacity. Called while nothing is queued."""
        if self._put_off and not self._asked:
            put_off, self._put_off = self._put_off, []
            for placed_node in put_off:
                self._count(placed_node[0], -1)
                if self._came_since:
                    self.add(placed_node[0], (placed_node[1],))
                else:
                    self._absent.add(placed_node)
            self._came_since = False
        for space in sorted(self._overflowed):
            if not self._unsettled:
                self._overflowed.discard(space)
                self.add(space, self._store.missing_nodes(space, self._max_nodes))

    def not_coming(self, placed_node: PlacedNode, *, later: bool) -> bool:
        """Record that the other end does not send a node, or (`later`) not now.

        Returns False if the node was not requested.
        """
        if placed_node not in self._asked:
            return False
        self._asked.remove(placed_node)
        if later:
            self._put_off.append(placed_node)
        else:
            self._absent.add(placed_node)
            self._count(placed_node[0], -1)
        return True

    def cancel(self, placed_node: PlacedNode) -> bool:
        """Stop waiting for a node. Returns True if it was requested from the other end."""
        if not self.is_wanted(placed_node):
            return False
        was_asked = placed_node in self._asked
        self._waiting.discard(placed_node)
        self._asked.discard(placed_node)
        self._absent.add(placed_node)
        self._count(placed_node[0], -1)
        return was_asked

    def forget_absent(self) -> None:
        """Allow nodes that the other end did not have, or was not allowed to send, to be requested again."""
        self._absent = RecentSet(self._max_nodes)

    def _count(self, space: bytes, change: int) -> None:
        self._counts[space] = self._counts.get(space, 0) + change
