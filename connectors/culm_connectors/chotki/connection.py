"""One connection with a replica: runs its session over a byte channel.

The session (models) decides which records to send and which changes take effect. Changes go to Kafka by
`publisher`, and are spooled while Kafka is slow. Changes of others come from the edge's store and tail by
`feed`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections import deque
from collections.abc import Iterator, Mapping

from culm_connectors.chotki.budgets import PIECE_BYTES, ReplicaBudget
from culm_connectors.chotki.errors import GAP, SOURCE_RESTORED, Warned
from culm_connectors.chotki.feed.peer_feed import PeerFeed
from culm_connectors.chotki.feed.peer_holding import PeerLag
from culm_connectors.chotki.host import EdgeHost, EdgeShared
from culm_connectors.chotki.publisher import ReplicaPublisher
from culm_connectors.chotki.spool import IntakeQueue
from culm_connectors.chotki.warnings.gap_watch import GapWatch
from culm_connectors.rate_limit import LeastRate
from culm_connectors.transport.errors import TransportError
from culm_connectors.transport.interface import ByteChannel
from culm_models.chotki import events
from culm_models.chotki.compat import Compat
from culm_models.chotki.errors import PeerDeaf, RecordTooLarge
from culm_models.chotki.ids import ZERO_ID, Id
from culm_models.chotki.packets.handshake import READS_FILTERED_DIFFS, trace_pair, write_handshake
from culm_models.chotki.packets.packet import read_head
from culm_models.chotki.rdx import parse_vector
from culm_models.chotki.sessions.session import Session
from culm_models.chotki.sync.diff import DiffRequest
from culm_models.chotki.sync.progress import Progress
from culm_topics.chotki.records import EpochRecord, RecordOrigin, VectorRecord

logger = logging.getLogger(__name__)

_READ_BYTES = 64 * 1024
_WRITE_BYTES = 256 * 1024
_WRITE_STEP_BYTES = 64 * 1024
_TURN_S = 0.002
"""Longest work on a diff before others have their turns; most steps are much shorter."""
_TRACE_BYTES = 10
_NAMED_GAPS = 5
_NAMED_PACKETS = 5


class ReplicaConnection:
    """One connection, from its start to its end in `run`. `name` is its name in logs."""

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
        self.refusal: events.SessionRefused | None = None
        self.reason = ""
        self.is_lost = False
        """Whether the transport ended before the session did."""
        self._shared = shared
        self.settings = shared.settings
        self._times = shared.settings.session()
        self._compat = Compat(shared.settings.compat)
        self.publisher = ReplicaPublisher(
            shared.producer,
            shared.kafka,
            shared.partitions,
            RecordOrigin(shared.edge, 0, number),
            IntakeQueue(shared.spools, shared.settings.max_waiting_bytes),
            GapWatch(shared.settings.gap_s),
            shared.limits,
            shared.metrics.accept_latency,
            self._compat,
        )
        self.feed = PeerFeed(shared.store, shared.tail, (shared.edge, number))
        self.lag = PeerLag()
        self._host = EdgeHost(shared, self.publisher, self.warn)
        self.session = Session(
            self._host,
            self._times,
            compat=self._compat,
            mode=shared.settings.mode,
            trace=secrets.token_bytes(_TRACE_BYTES),
            now_ms=_now_ms(),
        )
        self._wake = asyncio.Event()
        self._wake.set()
        self.queued_bytes = 0
        """Bytes taken from the session that the transport has not taken yet."""
        self._rate = LeastRate(shared.settings.write_bytes_per_second, shared.settings.write_timeout_s)
        self._last_sent: deque[bytes] = deque(maxlen=_NAMED_PACKETS)

    @property
    def origin(self) -> RecordOrigin:
        """Origin in the records that it produces."""
        return self.publisher.origin

    @property
    def traces(self) -> str:
        """Trace ids of both ends, in the form used in logs."""
        peer = self.session.peer
        return trace_pair(self.session.trace, peer.trace if peer is not None else bytes(_TRACE_BYTES))

    def last_sent(self) -> str:
        """Return a description of the last live records that were sent to the peer."""
        return ", ".join(map(_named, self._last_sent)) or "nothing"

    async def run(self) -> None:
        """Run the session until it ends or the transport does."""
        reading = asyncio.create_task(self._read(), name=f"chotki read {self.name}")
        producing = asyncio.create_task(self.publisher.run(), name=f"chotki produce {self.name}")
        writing = asyncio.create_task(self._write(), name=f"chotki write {self.name}")
        tasks = {reading, producing, writing}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if producing.done():
                self._refuse_for(producing)
            if self.session.closed:
                waited_for = {writing} if producing.done() else {writing, producing}
                await asyncio.wait(waited_for, return_when=asyncio.FIRST_COMPLETED)
            else:
                # The transport ended. Data received before still counts.
                self.session.lost()
                self._report_events()
            if not producing.done():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self.settings.ping_wait_ms / 1000):
                        await self.publisher.until_empty()
        finally:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            self.publisher.close()
            self.feed.close()
            for error in results:
                if isinstance(error, Exception) and not isinstance(error, (TransportError, RecordTooLarge)):
                    logger.warning("%s: %s", self.name, error)

    def _refuse_for(self, producing: asyncio.Task[None]) -> None:
        """End the session with an error if producing has failed because of the peer's data."""
        error = None if producing.cancelled() else producing.exception()
        if isinstance(error, RecordTooLarge):
            self.session.fail(error, _now_ms())
            self._report_events()
            self._wake.set()

    def wake(self) -> None:
        """Check soon whether there is something to send."""
        self._wake.set()

    def epoch(self, mark: EpochRecord, now_s: float) -> None:
        """Check for gaps and send what is new after the store has reached a new epoch."""
        self.check_gaps(mark, now_s)
        self.feed.epoch()
        self._wake.set()

    def holding(self, now_ms: int) -> VectorRecord | None:
        """Return what the peer holds and what it is missing of our data; None if it was reported already."""
        own = self._shared.store.vector if self.session.sends else {}
        return self.lag.next(own, self.feed.holding.vector, now_ms)

    def progress(self) -> tuple[Progress, Progress]:
        """Return the progress of the outgoing diff or sync, and of the peer's diff."""
        own, peers = self.session.progress()
        return self.feed.progress() or own, peers

    def check_gaps(self, mark: EpochRecord, now_s: float) -> None:
        """End the session if its changes do not count because of a gap. The peer's next diff fills it."""
        session = self.session
        peer = session.peer
        if peer is None or session.is_over or any(sync.t == peer.t for sync in session.open_syncs):
            # Live packets build on the diff, which has not arrived completely.
            return
        gaps = self.publisher.gaps.check(mark, now_s)
        if gaps:
            ids = ", ".join(str(Id(src, pro)) for src, pro in sorted(gaps.items())[:_NAMED_GAPS])
            self.warn(Warned(GAP, f"{ids} was received before the changes that it builds on"))
            self.reason = "gap"
            self.close()

    def warn(self, event: Warned) -> None:
        """Report a warning."""
        self._shared.report(self, event)

    def close(self) -> None:
        """End the session from this side."""
        self.session.close(_now_ms())
        self._report_events()
        self._wake.set()

    async def _read(self) -> None:
        while not self.session.closed:
            data = await self.channel.read(_READ_BYTES)
            if not data:
                return
            self._shared.metrics.bytes_in += len(data)
            for start in range(0, len(data), PIECE_BYTES):
                piece = data[start : start + PIECE_BYTES]
                if await self._wait(await self.budget.take_in(len(piece), self._steps(piece))):
                    return  # the peer sends the unread rest again in its next session

    async def _wait(self, seconds: float) -> bool:
        """Wait for a time or until the channel ends. Returns whether it has ended."""
        if not seconds:
            return False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.channel.wait_closed()
                return True
        return False

    def _steps(self, data: bytes) -> Iterator[None]:
        """Process received bytes. Each step is a record or a part of a D; others have their turns between."""
        for _ in self.session.receive_in_turns(data, _now_ms()):
            self._report_events()
            yield
        self._report_events()
        self._wake.set()

    async def _write(self) -> None:
        session = self.session
        while True:
            session.tick(_now_ms())
            records = await self._take()
            self._report_events()
            if records:
                await self._put(b"".join(records))
            elif session.is_making_diff:
                await asyncio.sleep(0)
            elif session.closed:
                await self.channel.close()
                return
            elif (fed := await self._next_of_feed()) is not None:
                for record in fed:
                    session.send_live(record)
                await asyncio.sleep(0)
            else:
                await self._until_due()

    async def _take(self) -> list[bytes]:
        """Return the next records of the session. Diffs of several sessions are made in turns."""
        if not self.session.is_making_diff:
            return self.session.take(_now_ms(), _WRITE_BYTES)
        async with self._shared.turns.turn():
            until_s = time.monotonic() + _TURN_S
            while True:
                records = self.session.take(_now_ms(), _WRITE_BYTES)
                if records or not self.session.is_making_diff or time.monotonic() >= until_s:
                    return records

    async def _next_of_feed(self) -> list[bytes] | None:
        if self.session.peer is None or not self.session.is_sent_live_packets:
            return None
        if self.feed.progress() is None:
            records = self.feed.next()
        else:
            async with self._shared.turns.turn():
                records = self.feed.next()
        if records:
            self._last_sent.extend(records[-_NAMED_PACKETS:])
        return records

    async def _put(self, data: bytes) -> None:
        """Write bytes. A peer that reads them too slowly or not at all is treated as deaf."""
        self.queued_bytes = len(data)
        await self._wait(self.budget.to_send(len(data)))
        try:
            async with self._rate.required(self._taken_bytes):
                for start in range(0, len(data), _WRITE_STEP_BYTES):
                    await self.channel.write(data[start : start + _WRITE_STEP_BYTES])
                    # Writing does not wait while the transport's buffer has capacity: let others run.
                    await asyncio.sleep(0)
            self._shared.metrics.bytes_out += len(data)
        except TimeoutError:
            self._leave_deaf()
        finally:
            self.queued_bytes = 0

    def _taken_bytes(self) -> int:
        statistics = self.channel.statistics()
        return statistics.sent_bytes - statistics.unsent_bytes

    def _leave_deaf(self) -> None:
        rate = f"{self.settings.write_bytes_per_second:g} bytes a second"
        self.session.fail(PeerDeaf(f"the peer took less than {rate}"), _now_ms())
        self._report_events()
        self.channel.abort("the peer does not take what it is sent")

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
                case events.SessionRefused(code=code, message=message):
                    self.refusal = event
                    self.reason = code
                    if code == RecordTooLarge.code:
                        # The cause is at a replica and stays, so the text is kept as a warning for `status`.
                        self.warn(Warned(code, message))
                    if code == PeerDeaf.code:
                        self.reason += f", last sent: {self.last_sent()}"
                case events.ConnectionLost():
                    self.is_lost = True
            self._shared.report(self, event)

    def _meet(self, peer: Id) -> None:
        """Handle the peer's handshake: note what the peer holds, and begin to send it the tail."""
        handshake = self.session.peer
        assert handshake is not None, "it has just come"
        vector = parse_vector(handshake.vector)
        self.publisher.origin = self.publisher.origin._replace(peer=peer.src)
        known = Id(peer.src, self._shared.tail.ids.highest(peer.src))
        if known.seq > peer.seq:
            self.warn(Warned(SOURCE_RESTORED, _restored(peer, known)))
        if self.session.receives:
            self.publisher.announced(vector)
        self.feed.holding.raise_to(vector)
        if self.session.sends:
            self.feed.holding.raise_to(self._host.announced)
        self.feed.begin(self._host.covered, self._request)

    def _request(self, peer_vector: Mapping[int, int], claimed: bytes) -> DiffRequest:
        """Return the request of a sync after the own diff, for a peer of this vector."""
        session, peer = self.session, self.session.peer
        assert peer is not None, "the feed has begun"
        return DiffRequest(
            t=session.t,
            peer=dict(peer_vector),
            filtered=self._compat is Compat.DEFAULT and bool(peer.features & READS_FILTERED_DIFFS),
            max_parcel_bytes=self._times.max_parcel_bytes,
            max_record_bytes=self._times.max_record_bytes,
            cut_bytes=self._times.sync_cut_bytes,
            handshake=lambda vector: write_handshake(session.t, session.mode, vector, session.trace),
            compat=Compat.DEFAULT,
            announces=claimed,
        )


def _restored(peer: Id, known: Id) -> str:
    """Return the advice about a replica whose own entry is below the known ids of its source."""
    ids = f"{Id.make(peer.src, peer.seq + 1)} to {Id.make(known.src, known.seq)}"
    return (
        f"replica {peer.src:x} was restored from an older copy: it is at {peer}, and {known} is known of it. "
        f"It gives the ids {ids} again, and no other replica receives by a diff what it writes under them: "
        "write nothing there until this sync is over and the replica was started again, then repeat what was "
        "written since it was restored"
    )


def _now_ms() -> int:
    return int(time.monotonic() * 1000)


def _named(record: bytes) -> str:
    """Return a short description of a record that this edge sent."""
    head = read_head(record)
    id, ref = head.ids(Compat.DEFAULT)
    return f"{head.letter} {id}" if ref == ZERO_ID else f"{head.letter} {id} of {ref}"
