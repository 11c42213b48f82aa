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

    def __init__(self, store: ExchangeStore, most: int) -> None:
        self._store = store
        self._most = most
        self._queue: deque[PlacedNode] = deque()
        # Nodes to request. A cancelled node stays in the queue, but is no longer in this set.
        self._waiting: set[PlacedNode] = set()
        self._asked: set[PlacedNode] = set()
        self._unsettled: set[PlacedNode] = set()
        self._absent: RecentSet[PlacedNode] = RecentSet(most)
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
            place = (space, cid)
            if place in self._waiting or place in self._asked or place in self._unsettled:
                continue
            if place in self._absent or not may_be_node(cid) or self._store.has_node(space, cid):
                continue
            if len(self._waiting) + len(self._asked) >= self._most:
                # The store knows what is missing; it is queried again once there is capacity.
                self._overflowed.add(space)
                return cids[number:]
            self._waiting.add(place)
            self._queue.append(place)
            self._count(space, 1)
        return ()

    def is_wanted(self, place: PlacedNode) -> bool:
        """Whether a node is queued or requested."""
        return place in self._waiting or place in self._asked

    def is_unsettled(self, place: PlacedNode) -> bool:
        """Whether a node has been received and its result is not known yet."""
        return place in self._unsettled

    def take(self, place: PlacedNode) -> None:
        """Record that a node has been received."""
        if self.is_wanted(place):
            self._waiting.discard(place)
            self._asked.discard(place)
        else:
            self._count(place[0], 1)
        self._unsettled.add(place)
        self._came_since = True

    def settle(self, place: PlacedNode, status: AckStatus) -> bool:
        """Record the result of a received node. Returns False if the node is not unsettled."""
        if place not in self._unsettled:
            return False
        self._unsettled.remove(place)
        if status in (AckStatus.REFUSED, AckStatus.LATER):
            self._absent.add(place)
        self._count(place[0], -1)
        return True

    def next_to_ask(self, most: int) -> list[PlacedNode]:
        """Take up to `most` nodes of one space to request now. They count as in flight from here on."""
        if not self._queue and not self._waiting:
            self._look_again()
        found: list[PlacedNode] = []
        while self._queue and len(found) < most:
            place = self._queue[0]
            if found and place[0] != found[0][0]:
                break
            self._queue.popleft()
            if place in self._waiting:
                self._waiting.remove(place)
                self._asked.add(place)
                found.append(place)
        return found

    def _look_again(self) -> None:
        """Queue nodes that were postponed or that exceeded the capacity. Called while nothing is queued."""
        if self._put_off and not self._asked:
            put_off, self._put_off = self._put_off, []
            for place in put_off:
                self._count(place[0], -1)
                if self._came_since:
                    self.add(place[0], (place[1],))
                else:
                    self._absent.add(place)
            self._came_since = False
        for space in sorted(self._overflowed):
            if not self._unsettled:
                self._overflowed.discard(space)
                self.add(space, self._store.missing_nodes(space, self._most))

    def not_coming(self, place: PlacedNode, *, later: bool) -> bool:
        """Record that the other end does not send a node, or (`later`) not now.

        Returns False if the node was not requested.
        """
        if place not in self._asked:
            return False
        self._asked.remove(place)
        if later:
            self._put_off.append(place)
        else:
            self._absent.add(place)
            self._count(place[0], -1)
        return True

    def cancel(self, place: PlacedNode) -> bool:
        """Stop waiting for a node. Returns True if it was requested from the other end."""
        if not self.is_wanted(place):
            return False
        was_asked = place in self._asked
        self._waiting.discard(place)
        self._asked.discard(place)
        self._absent.add(place)
        self._count(place[0], -1)
        return was_asked

    def forget_absent(self) -> None:
        """Allow nodes that the other end did not have, or was not allowed to send, to be requested again."""
        self._absent = RecentSet(self._most)

    def _count(self, space: bytes, change: int) -> None:
        self._counts[space] = self._counts.get(space, 0) + change
