"""Drives one p2panda peer over many connections and one sink.

Each side of a connection opens one unidirectional stream for all that it sends (`connection`). Entries of all
connections pass through one queue to the sink (`edge.intake`). Every queue is bounded: a slow sink stops the
connections' appliers, they stop the readers, and QUIC's credit stops the remotes. Whatever calls the peer
marks its events and messages as due, and one task passes them on.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Awaitable, Callable, Sequence, Set

from culm_connectors.clock import steady_ms
from culm_connectors.edge.intake import IntakeLimits, MemoryOutbox
from culm_connectors.edge.serving import ServedLinks
from culm_connectors.logs.check_pool import CheckPool
from culm_connectors.logs.hub import Arrival, Stored
from culm_connectors.logs.warm_start.claims import HeightClaims
from culm_connectors.p2panda.connections.budgets import Budgets, own_announcements
from culm_connectors.p2panda.connections.catch_up_limiter import CatchUpLimiter
from culm_connectors.p2panda.connections.connection import exchange
from culm_connectors.p2panda.connections.duplicate_connections import supersedes
from culm_connectors.p2panda.connections.link import PeerLink
from culm_connectors.p2panda.connections.shared import Arrange, EntryReader, Filter, Observer, Shared
from culm_connectors.p2panda.peer_events import DriverMetrics
from culm_connectors.p2panda.settings import DriverSettings
from culm_connectors.transport.codes import CloseCode
from culm_connectors.transport.interface import Connection
from culm_models.bamboo.checks import SoundEntry
from culm_models.p2panda.events import (
    Duplicate,
    EntryAccepted,
    EntryRejected,
    LinkFailed,
    Live,
    PeerEvent,
    SessionDone,
    SessionFailed,
)
from culm_models.p2panda.operations.operation import OperationFacts
from culm_models.p2panda.peer import Peer
from culm_models.p2panda.wire.messages import Message

logger = logging.getLogger(__name__)

# A broken stream costs a connection, and the next one a handshake.
_REJECTS_A_BROKEN_STREAM = 5


Sink = Callable[[Sequence[Arrival], object], Awaitable[Sequence[SoundEntry]]]
"""Makes entries durable and puts them into the peer's store, in this order.

Returns those that could not be stored (their log has moved on since). The second argument is who brings them
and sees to its own peers. A raised error means that none was stored, and ends the driver.
"""


def permit_everything(remote: bytes, message: Message) -> Message | None:
    """The filter of a peer without an allow-list."""
    return message


SchemasOf = Callable[[bytes], Set[str] | None]
"""The schemas that a remote may replicate and may know of; None for all of them."""


def no_restriction(remote: bytes) -> None:
    """Allow every schema to every remote."""


def nothing_to_settle(arrivals: Sequence[Arrival]) -> None:
    """Do nothing when arrivals are stored: the default of `settled`."""


class Driver:
    """One local peer and the connections to its remotes.

    `run` must be running while connections are served. Errors of the sink end `run`. `settled` is called
    with what remotes brought when it is stored, or has turned out not to fit.
    """

    def __init__(
        self,
        peer: Peer,
        *,
        reader: EntryReader,
        sink: Sink,
        observer: Observer,
        pool: CheckPool[OperationFacts],
        settings: DriverSettings | None = None,
        permit: Filter = permit_everything,
        schemas_of: SchemasOf = no_restriction,
        claims: HeightClaims | None = None,
        settled: Callable[[Sequence[Arrival]], None] = nothing_to_settle,
        now_ms: Callable[[], int] = steady_ms,
        arrange: Arrange | None = None,
    ) -> None:
        self.peer = peer
        self.settings = settings or DriverSettings()
        self.metrics = DriverMetrics()
        self.links = ServedLinks[PeerLink](self.metrics, lambda link: link.remote, self._on_gone)
        self._budgets = Budgets(self.settings)
        self._announcing = own_announcements(self.settings)
        self._to_announce: tuple[str, ...] | None = None
        self._sink = sink
        self._staged = MemoryOutbox[Arrival](
            self._store_arrivals,
            self.metrics,
            IntakeLimits(self.settings.max_staged_items, self.settings.max_staged_bytes),
            batch=IntakeLimits(self.settings.store_batch, self.settings.store_batch_bytes),
        )
        self._observer = observer
        self._settled = settled
        self._now_ms = now_ms
        self._schemas_of = schemas_of
        self._due = asyncio.Event()
        self._turns = CatchUpLimiter(self.settings.max_catching_up, self.settings.catch_up_turn_s)
        self._shared = Shared(
            peer,
            self._due,
            self._turns,
            self._staged,
            reader,
            HeightClaims(peer.store.height) if claims is None else claims,
            observer,
            pool,
            self.settings,
            self.metrics,
            permit,
            now_ms,
            arrange,
        )

    async def run(self) -> None:
        """Store arriving entries and run the protocol's timers, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._staged.run(), name="p2panda-store")
            group.create_task(self._pump(), name="p2panda-pump")
            group.create_task(self._tick(), name="p2panda-tick")

    # For the program around.

    def measured(self) -> DriverMetrics:
        """The numbers of this moment; from any thread."""
        streams = [link.outgoing for link in tuple(self.links.open.values())]
        self.metrics.unsent_bytes = sum(
            stream.written - stream.acknowledged for stream in streams if stream is not None
        )
        self.metrics.waiting_for_turn = self._turns.waiting
        return self.metrics

    @property
    def announced(self) -> bool:
        """Whether there is an announcement to greet remotes with."""
        return self.peer.announcement is not None

    def announce(self, schema_ids: Sequence[str]) -> None:
        """Announce these schemas to every remote, now and from now on.

        Soon at most, where much was announced lately: remotes read no more than a few in a time.
        """
        self._to_announce = tuple(schema_ids)
        self._announce_when_due()

    def _announce_when_due(self) -> None:
        if self._to_announce is not None and self._announcing.take(1, time.monotonic()):
            self.peer.announce(self._to_announce, self._now_ms())
            self._to_announce = None
            self._due.set()

    def on_stored(self, stored: Stored) -> None:
        """Send entries to live remotes that came into the store by another way than through this driver."""
        now = self._now_ms()
        if stored.replacing:
            # What was staged on top of the other branch will not be stored.
            self.peer.discard(stored.replacing, now)
        if len(stored.fresh) < len(stored.entries):
            self.peer.settled(stored.entries)
        if stored.fresh:
            self.peer.stored(stored.fresh, None, now)
            self._due.set()

    def disconnect(self, remote: bytes, code: CloseCode, reason: str) -> None:
        """Close the connection to a remote, if there is one."""
        if (link := self.links.open.get(remote)) is not None:
            self.links.end(link, code, reason)

    async def finish(self, reason: str) -> None:
        """Close every connection, and wait until all entries accepted from them are stored."""
        await self.links.finish(reason)
        await self.drained()

    async def store(self, entries: Sequence[SoundEntry]) -> None:
        """Store staged local entries (`Peer.ingest`), which no remote sent; live remotes get them."""
        arrivals = [Arrival(checked, self.peer.peer_id, 0) for checked in entries]
        self._staged.add((arrival, arrival.checked.size_bytes) for arrival in arrivals)
        await self.drained()

    async def drained(self) -> None:
        """Wait until all entries accepted so far are stored, and all events so far are reported."""
        await self._staged.drained()
        self._due.set()
        # The pump waits for it, and so runs before this goes on.
        await asyncio.sleep(0)

    def _blame(self, event: EntryRejected | LinkFailed) -> None:
        """Disconnect a remote whose stream is broken, or of which too much was refused.

        What is the fault of an entry's author is not counted: whoever brings it can be honest.
        """
        link = self.links.open.get(event.remote)
        if link is None or link.letting_go:
            return
        now_s = time.monotonic()
        if isinstance(event, LinkFailed):
            link.budget.refuse(_REJECTS_A_BROKEN_STREAM, now_s)
            too_large = event.code.endswith("too_large")
            self.links.end(link, CloseCode.TOO_LARGE if too_large else CloseCode.PROTOCOL, event.code)
        elif not event.blameless and not link.budget.refuse(1, now_s):
            self.links.end(link, CloseCode.PROTOCOL, "too many refused entries")

    async def serve(self, connection: Connection) -> None:
        """Serve p2panda on a connection until it ends; never raises for what the remote does."""
        await self.speak(connection)

    async def until_gone(self, remote: bytes) -> bool | None:
        """Wait until the connection to a remote ends; returns whether it went well, None if there is none."""
        link = self.links.open.get(remote)
        if link is None:
            return None
        await link.connection.wait_closed()
        return link.went_well

    async def speak(self, connection: Connection) -> bool:
        """Serve a connection until it ends; returns True if a session finished or reached live mode."""
        now_s = time.monotonic()
        host = connection.remote_address[0]
        budget = self._budgets.of(connection.peer_id, host, now_s)
        if budget.is_barred(now_s):
            connection.abort(CloseCode.OVERLOADED, "too much was refused: come again later")
            self.metrics.refused["barred"] += 1
            return False
        link = PeerLink(connection, self.settings, budget)
        if link.remote == self.peer.peer_id:
            self.links.refuse(connection, CloseCode.WRONG_PEER, "this is the very peer that calls")
            return False
        earlier = self.links.open.get(link.remote)
        if earlier is not None and not supersedes(connection, earlier.connection, self.peer.peer_id):
            self.links.refuse(connection, CloseCode.SUPERSEDED, "there is another connection between us")
            return False
        self.links.begin(link)
        self._budgets.begin(link.remote, link.host, now_s)
        self.peer.connect(
            link.remote,
            self._now_ms(),
            dialled=connection.dialled,
            allowed=self._schemas_of(link.remote),
        )
        self._due.set()
        await self.links.serve(link, lambda link: exchange(link, self._shared))
        return link.went_well

    def _on_gone(self, link: PeerLink) -> None:
        self._budgets.end(link.remote, link.host)
        self._turns.give_back(link.remote, time.monotonic())
        self.peer.disconnect(link.remote, self._now_ms())
        self._observer.on_gone(link.remote)
        self._due.set()

    async def _pump(self) -> None:
        """Report events, and wake the writers that have something to write, whenever that is due."""
        while True:
            await self._due.wait()
            self._due.clear()
            for event in self.peer.take_events():
                try:
                    self._report(event)
                except Exception:
                    # A defect of ours must cost this connection only.
                    logger.exception("reporting %s of %s failed", event.kind, event.remote.hex()[:16])
                    self.disconnect(event.remote, CloseCode.INTERNAL, "internal error")
            for link in self.links.open.values():
                outgoing = self.peer.outgoing(link.remote)
                if outgoing or outgoing.is_partial:
                    link.wake.set()

    def _report(self, event: PeerEvent) -> None:
        self.metrics.count(event)
        if (link := self.links.open.get(event.remote)) is not None:
            if isinstance(event, EntryAccepted | Duplicate):
                link.budget.is_trusted = True
            elif isinstance(event, SessionDone | Live | SessionFailed):
                link.went_well |= not isinstance(event, SessionFailed)
                self._shared.end_turn(link)
        self._observer.on_event(event)
        if isinstance(event, EntryRejected | LinkFailed):
            self._blame(event)

    async def _store_arrivals(self, batch: Sequence[Arrival]) -> None:
        lost = {id(checked) for checked in await self._sink(batch, self)}
        now = self._now_ms()
        self._settled(batch)
        for remote, run in itertools.groupby(batch, lambda arrival: arrival.remote):
            entries = [arrival.checked for arrival in run]
            if lost:
                self.peer.discard([checked for checked in entries if id(checked) in lost], now)
                entries = [checked for checked in entries if id(checked) not in lost]
            self.peer.stored(entries, remote, now)
        self._due.set()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(self.settings.tick_interval_s)
            busy = {link.remote for link in self.links.open.values() if link.is_behind}
            self.peer.tick(self._now_ms(), busy)
            self._turns.pass_time(time.monotonic())
            self._announce_when_due()
            self._due.set()
