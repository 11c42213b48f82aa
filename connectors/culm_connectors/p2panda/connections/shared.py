"""State that all connections of a driver share, and the interfaces to the parts behind it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from culm_connectors.edge.intake import MemoryOutbox
from culm_connectors.logs.check_pool import CheckPool
from culm_connectors.logs.hub import Arrival
from culm_connectors.logs.index.layout import Pair, Range
from culm_connectors.logs.warm_start.claims import HeightClaims
from culm_connectors.p2panda.connections.catch_up_limiter import CatchUpLimiter
from culm_connectors.p2panda.connections.link import PeerLink
from culm_connectors.p2panda.peer_events import DriverMetrics
from culm_connectors.p2panda.settings import DriverSettings
from culm_models.bamboo.log_store import LogKey
from culm_models.p2panda.events import PeerEvent
from culm_models.p2panda.operations.operation import OperationFacts
from culm_models.p2panda.peer import Peer
from culm_models.p2panda.reconciliation.ranges import EntryRange
from culm_models.p2panda.sessions.session import SessionState
from culm_models.p2panda.wire.messages import Message


class EntryReader(Protocol):
    """Reads parts of logs without holding up the event loop."""

    async def read_ranges(self, ranges: Sequence[Range], max_bytes: int) -> list[list[Pair]]:
        """At least the beginning of the first range, and as many others as fit in about `max_bytes`.

        One list a range that was read, empty where nothing of it is held; the last may be a beginning.
        """
        ...


class Observer(Protocol):
    """Is given what happens, on the event loop; it must not block."""

    @property
    def wants_deliveries(self) -> bool:
        """Whether `on_delivered` is of use."""
        ...

    def on_event(self, event: PeerEvent) -> None:
        """Something has happened in the protocol."""
        ...

    def on_gone(self, remote: bytes) -> None:
        """The connection to a remote has ended, and no other has taken its place yet."""
        ...

    def on_delivered(self, remote: bytes, heights: Mapping[LogKey, int]) -> None:
        """A remote's transport has acknowledged entries up to these sequence numbers."""
        ...


Filter = Callable[[bytes, Message], Message | None]
"""Filters a remote's message: returns the message, a smaller one in its place, or None to drop it."""

Arrange = Callable[[PeerLink, Sequence[EntryRange]], AsyncIterator[Sequence[EntryRange]]]
"""Puts all that a session is to send into the order in which the remote can take it, in parts."""


@dataclass(frozen=True, slots=True)
class Shared:
    """State that the connections of a driver share."""

    peer: Peer
    due: asyncio.Event
    """Set by whatever calls the peer: it may have events, or something to send."""
    turns: CatchUpLimiter
    staged: MemoryOutbox[Arrival]
    reader: EntryReader
    claims: HeightClaims
    observer: Observer
    pool: CheckPool[OperationFacts]
    settings: DriverSettings
    metrics: DriverMetrics
    permit: Filter
    now_ms: Callable[[], int]
    arrange: Arrange | None = None

    def end_turn(self, link: PeerLink) -> None:
        """End the turn of a remote, unless a session with it has not caught up yet."""
        sessions = self.peer.sessions(link.remote)
        if link.is_current and all(session.state is SessionState.LIVE for session in sessions):
            self.turns.give_back(link.remote, time.monotonic())
