"""What an exchange with one remote works with, and what it asks of the program around it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from culm_connectors.checking import CheckPool
from culm_connectors.index.chunks import Pair, Range
from culm_connectors.p2panda.metrics import DriverMetrics
from culm_connectors.p2panda.sessions import Arrival, Link, LogKey
from culm_connectors.p2panda.settings import DriverSettings
from culm_connectors.transport.codes import CloseCode
from culm_models.p2panda.events import Event
from culm_models.p2panda.messages import Message
from culm_models.p2panda.peer import Peer
from culm_models.p2panda.ranges import EntryRange


class EntryReader(Protocol):
    """Reads parts of logs without holding up the event loop."""

    async def read_ranges(self, ranges: Sequence[Range], max_bytes: int) -> list[list[Pair]]:
        """At least the beginning of the first range, and as many others as fit in about `max_bytes`.

        One list a range that was read, empty where nothing of it is held; the last may be a beginning.
        """
        ...


class Observer(Protocol):
    """Hears what happens, on the event loop; it must not block."""

    @property
    def wants_deliveries(self) -> bool:
        """Whether `on_delivered` is of use."""
        ...

    def on_event(self, event: Event) -> None:
        """The protocol has something to tell."""
        ...

    def on_gone(self, remote: bytes) -> None:
        """The connection to a remote has ended, and no other has taken its place yet."""
        ...

    def on_delivered(self, remote: bytes, heights: Mapping[LogKey, int]) -> None:
        """A remote's transport has acknowledged entries up to these sequence numbers."""
        ...


Arrived = Callable[[Collection[LogKey] | None], None]
"""Hears which logs have grown; None: perhaps any."""


class Expectations(Protocol):
    """Entries that count as held, for remotes, and are still on their way into the store."""

    listeners: set[Arrived]

    @property
    def anything(self) -> bool:
        """Whether any entries are on their way."""
        ...

    def awaits(self, log: LogKey, seq_num: int) -> bool:
        """Whether an entry counts as held and is not there yet."""
        ...

    def awaits_before(self, log: LogKey, seq_num: int) -> bool:
        """Whether entries that come before this one in its log count as held and are not there yet."""
        ...

    async def arrival(self) -> None:
        """Wait until something has come, or nothing more is on its way."""
        ...


class NothingExpected:
    """The expectations of a peer whose store holds all that it shows."""

    def __init__(self) -> None:
        self.listeners: set[Arrived] = set()

    @property
    def anything(self) -> bool:
        """Nothing is on its way."""
        return False

    def awaits(self, log: LogKey, seq_num: int) -> bool:
        """Nothing is on its way."""
        return False

    def awaits_before(self, log: LogKey, seq_num: int) -> bool:
        """Nothing is on its way."""
        return False

    async def arrival(self) -> None:
        """Nothing is waited for."""


class Hub(Protocol):
    """What the connections of a driver share."""

    def is_current(self, link: Link) -> bool:
        """False once another connection has taken this one's place, or it was given up."""
        ...

    async def room(self) -> None:
        """Wait while too many entries wait to be stored."""
        ...

    async def turn(self, link: Link) -> None:
        """Wait until a remote may begin a session, or its connection has ended."""
        ...

    def turn_used(self, link: Link) -> None:
        """The turn is over where nothing is left to catch up with."""
        ...

    def stage(self, arrivals: Sequence[Arrival]) -> None:
        """Have these stored, in this order, after all that were staged before."""
        ...

    def pump(self) -> None:
        """The peer may have something to tell or to send."""
        ...


class LinkEnded(Exception):
    """Ends the tasks of one connection: `close_code` and the text are what the remote is told."""

    def __init__(self, code: CloseCode, reason: str = "") -> None:
        super().__init__(reason)
        self.close_code = code


Filter = Callable[[bytes, Message], Message | None]
"""What a remote may say: the message itself, a smaller one in its place, or nothing."""

Arrange = Callable[[Link, Sequence[EntryRange]], AsyncIterator[Sequence[EntryRange]]]
"""Puts all that a session is to send into the order in which the remote can take it, in parts."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What every exchange of a driver works with."""

    peer: Peer
    hub: Hub
    reader: EntryReader
    expectations: Expectations
    observer: Observer
    pool: CheckPool
    settings: DriverSettings
    metrics: DriverMetrics
    permit: Filter
    now_ms: Callable[[], int]
    arrange: Arrange | None = None
