"""One connection with a replica: its session over a byte channel, and the host that the session belongs to.

The session (models) says what goes out and what takes effect; what takes effect goes to Kafka by `publisher`,
and what others brought comes from the edge (`offer`, `follow_up`). Reading stops while Kafka is behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from culm_connectors.chotki.budgets import TURN_BYTES, ReplicaBudget
from culm_connectors.chotki.local_state.snapshot import EpochSnapshot
from culm_connectors.chotki.local_state.store import ChotkiStore
from culm_connectors.chotki.metrics import ChotkiMetrics
from culm_connectors.chotki.peer_holding import Delivery, PeerHolding
from culm_connectors.chotki.publisher import Partitions, ReplicaPublisher
from culm_connectors.chotki.relay import PacketTail, RelayedPacket
from culm_connectors.chotki.settings import ChotkiEdgeSettings
from culm_connectors.chotki.spool import DiskSpool
from culm_connectors.chotki.warnings.events import (
    GAP,
    ID_REUSED,
    LATE,
    LOOP,
    REPEATED,
    SOURCE_RESTORED,
    Warned,
)
from culm_connectors.chotki.warnings.gap_watch import GapWatch
from culm_connectors.chotki.warnings.packet_ids import Arrival
from culm_connectors.kafka import BatchProducer
from culm_connectors.transport.errors import TransportError
from culm_connectors.transport.interface import ByteChannel
from culm_models.chotki import events
from culm_models.chotki.compat import Compat
from culm_models.chotki.ids import Id
from culm_models.chotki.packets.handshake import READS_FILTERED_DIFFS, trace_pair, write_handshake
from culm_models.chotki.packets.live import LivePacket
from culm_models.chotki.rdx import parse_vector, write_vector
from culm_models.chotki.sessions.session import Session
from culm_models.chotki.sync.diff import Diff, DiffRequest
from culm_models.chotki.sync.open_syncs import OpenSync
from culm_topics.chotki.records import Bringer, EpochRecord
from culm_topics.kafka.clients import KafkaSettings

logger = logging.getLogger(__name__)

_READ_BYTES = 64 * 1024
_WRITE_BYTES = 256 * 1024
_FOLLOW_UP_PARCEL_BYTES = 1024 * 1024
_MOST_FOLLOW_UP_BYTES = 64 * 1024 * 1024
_TRACE_BYTES = 10
_NAMED_GAPS = 5
_TOLD: Mapping[Arrival, tuple[str, str]] = {
    Arrival.LATE: (LATE, "comes behind what its source has said: its writer went back"),
    Arrival.REPEATED: (REPEATED, "came before"),
    Arrival.LOOP: (LOOP, "came before by another connection: the tree of replicas has a circle"),
    Arrival.REUSED: (ID_REUSED, "came before with other bytes"),
}


@dataclass(slots=True)
class OwnSource:
    """The edge's own source and the progress of its last id."""

    src: int
    counter: int = 0

    def raise_to(self, pro: int) -> None:
        """An id of it was seen."""
        self.counter = max(self.counter, pro)


@dataclass(frozen=True, slots=True)
class EdgeShared:
    """What all connections of an edge share."""

    store: ChotkiStore
    tail: PacketTail
    source: OwnSource
    producer: BatchProducer
    kafka: KafkaSettings
    partitions: Partitions
    settings: ChotkiEdgeSettings
    edge: bytes
    report: Callable[[ReplicaConnection, events.SessionEvent], None]
    """Told what happens on a connection."""
    metrics: ChotkiMetrics


class _Host:
    """Implements `Host` for the session of one connection."""

    def __init__(
        self, shared: EdgeShared, publisher: ReplicaPublisher, warn: Callable[[Warned], None]
    ) -> None:
        self._shared = shared
        self._warn = warn
        self._publisher = publisher
        self.announced: dict[int, int] = {}
        """The vector of our handshake."""
        self.covered: dict[int, int] = {}
        """Up to where `chotki.packets` is in the snapshot that it came from."""

    @property
    def src(self) -> int:
        """See `Host.src`."""
        return self._shared.source.src

    @property
    def counter(self) -> int:
        """See `Host.counter`."""
        return self._shared.source.counter

    def raise_counter(self, pro: int) -> None:
        """See `Host.raise_counter`."""
        self._shared.source.raise_to(pro)

    def snapshot(self) -> EpochSnapshot:
        """See `Host.snapshot`."""
        snapshot = self._shared.store.snapshot()
        self.announced, self.covered = dict(snapshot.vector), dict(snapshot.packets)
        return snapshot

    def open_spool(self) -> DiskSpool:
        """See `Host.open_spool`."""
        return DiskSpool()

    def apply(self, live: LivePacket) -> None:
        """See `Host.apply`: it takes effect once Kafka has it and the job has merged it."""
        src, pro = live.id.src, live.entry.pro
        arrival = self._shared.tail.ids.arrives(src, pro, live.record, self._publisher.bringer)
        if arrival in _TOLD:
            code, text = _TOLD[arrival]
            self._warn(Warned(code, f"{live.letter} {live.id} {text}"))
        if arrival in (Arrival.REPEATED, Arrival.LOOP):
            # Only this connection has come further by it.
            self._publisher.announced({src: pro})
            return
        self._publisher.packet(live)

    def commit_sync(self, sync: OpenSync, vectors: list[tuple[Id, bytes]]) -> Id | None:
        """See `Host.commit_sync`."""
        spool = sync.spool
        assert isinstance(spool, DiskSpool), "opened here"
        spool.keep()
        vector = parse_vector(sync.vector)
        after = self.announced if sync.is_peers else self._publisher.brought
        self._publisher.sync(sync.t, spool, vectors, vector, after, sync.bytes)
        own = vector.get(self.src, 0)
        if own <= self.counter:
            return None
        self.raise_counter(own)
        return Id(self.src, own)

    def forward(self, session: object, record: bytes) -> None:
        """See `Host.forward`: what others are to have comes back from Kafka."""


class ReplicaConnection:
    """One connection; `run` is its whole life. `name` is what logs call it."""

    def __init__(
        self,
        shared: EdgeShared,
        channel: ByteChannel,
        number: int,
        name: str,
        budget: ReplicaBudget | None = None,
    ) -> None:
        self.name = name
        self.number = number
        self.channel = channel
        self.budget = budget or ReplicaBudget(shared.settings, time.monotonic())
        self.refusal: events.Refused | None = None
        self.reason = ""
        self.is_lost = False
        """The transport ended, or was ended, before the session did."""
        self._shared = shared
        self.settings = self._settings = shared.settings
        self.publisher = ReplicaPublisher(
            shared.producer,
            shared.kafka,
            shared.partitions,
            Bringer(shared.edge, 0, number),
            shared.settings.max_waiting_bytes,
            GapWatch(shared.settings.gap_s),
            shared.metrics.accept_latency,
        )
        self.holding = PeerHolding()
        self._host = _Host(shared, self.publisher, self.warn)
        self._compat = Compat(shared.settings.compat)
        self.session = Session(
            self._host,
            shared.settings.session(),
            compat=self._compat,
            mode=shared.settings.mode,
            trace=secrets.token_bytes(_TRACE_BYTES),
            now_ms=_now_ms(),
        )
        self._wake = asyncio.Event()
        self._wake.set()
        self.queued_bytes = 0
        """Live packets and follow-up syncs that the transport has not taken yet, at most."""

    @property
    def bringer(self) -> Bringer:
        """As whom it produces."""
        return self.publisher.bringer

    @property
    def covered(self) -> Mapping[int, int] | None:
        """What the tail is still needed from for this connection: None once its peer is known."""
        return self._host.covered if self.session.peer is None else None

    @property
    def traces(self) -> str:
        """Both ends' trace ids as logs write them."""
        peer = self.session.peer
        return trace_pair(self.session.trace, peer.trace if peer is not None else bytes(_TRACE_BYTES))

    async def run(self) -> None:
        """Speak until the session is over, however it ends."""
        reading = asyncio.create_task(self._read(), name=f"chotki read {self.name}")
        producing = asyncio.create_task(self.publisher.run(), name=f"chotki produce {self.name}")
        writing = asyncio.create_task(self._write(), name=f"chotki write {self.name}")
        tasks = {reading, producing, writing}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if self.session.closed:
                await asyncio.wait({writing, producing}, return_when=asyncio.FIRST_COMPLETED)
            else:
                # The transport ended; what came before is taken all the same.
                self.session.lost()
                self._report_events()
            if not producing.done():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._settings.ping_wait_ms / 1000):
                        await self.publisher.until_empty()
        finally:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            self.publisher.close()
            for error in results:
                if isinstance(error, Exception) and not isinstance(error, TransportError):
                    logger.warning("%s: %s", self.name, error)

    def offer(self, packet: RelayedPacket) -> None:
        """A packet of `chotki.packets`: it goes out, is held already, or waits for a follow-up sync."""
        peer = self.session.peer
        if peer is None or self.session.is_over or not self.session.is_sent_live_packets:
            return
        if packet.session == (self._shared.edge, self.number):
            self.holding.raise_to({packet.src: packet.pro})
            return
        if self.holding.deliver(packet) is Delivery.SEND:
            self._send([packet.packet])

    def follow_up(self, snapshot: EpochSnapshot) -> None:
        """Send what an epoch holds beyond what the peer does, as a sync of its own."""
        session = self.session
        if session.peer is None or session.is_over or not session.is_sent_live_packets:
            return
        limited = self.holding.lacks(snapshot.vector)
        if not limited:
            return
        request = DiffRequest(
            t=session.t,
            peer=dict(self.holding.vector),
            filtered=self._compat is Compat.DEFAULT and bool(session.peer.features & READS_FILTERED_DIFFS),
            max_parcel_bytes=_FOLLOW_UP_PARCEL_BYTES,
            cut_bytes=None,
            handshake=lambda vector: write_handshake(session.t, session.mode, vector, session.trace),
            compat=Compat.DEFAULT,
        )
        records = [request.handshake(write_vector(limited))]
        size = 0
        for record in filter(None, Diff(snapshot, request).records()):
            size += len(record)
            if size > _MOST_FOLLOW_UP_BYTES:
                # The next session brings it, piece by piece.
                logger.info("%s: too far behind for a follow-up sync, the session begins anew", self.name)
                self.close()
                return
            records.append(record)
        self.holding.raise_to(limited)
        self._send(records)

    def check_gaps(self, mark: EpochRecord, now_s: float) -> None:
        """End the session if what it brought does not count: the peer's next diff brings what is missing."""
        session = self.session
        if session.peer is None or session.is_over or session.peer.t in session.open_syncs:
            # What is live builds on a diff that is on its way.
            return
        gaps = self.publisher.gaps.check(mark, now_s)
        if gaps:
            ids = ", ".join(str(Id(src, pro)) for src, pro in sorted(gaps.items())[:_NAMED_GAPS])
            self.warn(Warned(GAP, f"{ids} was brought and builds on what has not come"))
            self.reason = "gap"
            self.close()

    def warn(self, event: Warned) -> None:
        """Report what is not as it should be."""
        self._shared.report(self, event)

    def _send(self, records: Sequence[bytes]) -> None:
        """Queue records for the peer; one that does not read them is left, and comes again."""
        self.queued_bytes += sum(map(len, records))
        if self.queued_bytes > self._settings.max_outgoing_bytes:
            logger.warning("%s %s: reads too slowly", self.name, self.traces)
            self.reason = "slow"
            self._shared.metrics.closed["overloaded"] += 1
            self.channel.abort("the peer reads too slowly")
            return
        for record in records:
            self.session.send_live(record)
        self._wake.set()

    def close(self) -> None:
        """End the session from this side."""
        self.session.close(_now_ms())
        self._report_events()
        self._wake.set()

    async def _read(self) -> None:
        while not self.session.closed:
            await self.publisher.until_room()
            data = await self.channel.read(_READ_BYTES)
            if not data:
                return
            self._shared.metrics.bytes_in += len(data)
            for start in range(0, len(data), TURN_BYTES):
                piece = data[start : start + TURN_BYTES]
                if wait_s := await self.budget.take_in(len(piece), self._steps(piece)):
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(wait_s):
                            await self.channel.wait_closed()
                            return  # what is left unread comes again

    def _steps(self, data: bytes) -> Iterator[None]:
        """Take in what was read: a large D is many steps, between which others have their turns."""
        for _ in self.session.receive_in_turns(data, _now_ms()):
            self._report_events()
            yield
        self._report_events()
        self._wake.set()

    async def _write(self) -> None:
        session = self.session
        while True:
            records = session.take(_now_ms(), _WRITE_BYTES)
            self._report_events()
            if records:
                data = b"".join(records)
                await self.channel.write(data)
                self._shared.metrics.bytes_out += len(data)
                self.queued_bytes = max(0, self.queued_bytes - len(data))
                continue
            if session.is_making_diff:
                await asyncio.sleep(0)
                continue
            if session.closed:
                await self.channel.close()
                return
            await self._until_due()
            session.tick(_now_ms())
            self._report_events()

    async def _until_due(self) -> None:
        due_ms = self.session.next_due_ms()
        wait_s = None if due_ms is None else max(0, due_ms - _now_ms()) / 1000
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._wake.wait()
        self._wake.clear()

    def _report_events(self) -> None:
        for event in self.session.take_events():
            self.budget.note(event)
            match event:
                case events.PeerKnown(peer=peer):
                    self._meet(peer)
                case events.ByeReceived(reason=reason):
                    self.reason = reason
                case events.Refused():
                    self.refusal = event
                    self.reason = event.code
                case events.ConnectionLost():
                    self.is_lost = True
            self._shared.report(self, event)

    def _meet(self, peer: Id) -> None:
        """The peer's handshake: what it holds is known, and what the tail has for it goes out."""
        handshake = self.session.peer
        assert handshake is not None, "it has just come"
        vector = parse_vector(handshake.vector)
        self.publisher.bringer = self.publisher.bringer._replace(peer=peer.src)
        if (known := self._shared.tail.ids.highest(peer.src)) > peer.pro:
            text = "was restored from an old copy, and gives ids that exist until it is started again"
            self.warn(Warned(SOURCE_RESTORED, f"{peer}, known up to {Id(peer.src, known)}, {text}"))
        if self.session.receives:
            self.publisher.announced(vector)
        self.holding.raise_to(vector)
        if self.session.sends:
            self.holding.raise_to(self._host.announced)
        for packet in self._shared.tail.beyond(self._host.covered):
            self.offer(packet)


def _now_ms() -> int:
    return int(time.monotonic() * 1000)
