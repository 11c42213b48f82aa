"""One connection between two replicas, as a state machine without I/O (reference 4).

`Session` gets bytes and the time, and gives records to send (`take`) and events. It checks what comes,
sends its own diff from the snapshot that its H announced, keeps the peer's until V, and answers and sends
pings. What takes effect goes to its `Host`: a `Replica` in memory, or an edge with its own store behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from culm_models.chotki import events
from culm_models.chotki.compat import Compat
from culm_models.chotki.errors import (
    ChotkiError,
    HandshakeMalformed,
    HandshakeTimeout,
    OwnIdMalformed,
    SourceCollision,
)
from culm_models.chotki.events import SessionState
from culm_models.chotki.ids import GLOBAL_VECTOR_KEY, Id
from culm_models.chotki.packets.handshake import (
    READS_FILTERED_DIFFS,
    Handshake,
    agree,
    read_handshake,
    write_handshake,
)
from culm_models.chotki.packets.live import read_live
from culm_models.chotki.packets.packet import (
    PING,
    PONG,
    Packet,
    outer_letter,
    parse,
    read_bye,
    read_ping,
    write_bye,
    write_ping,
)
from culm_models.chotki.rdx import parse_vector
from culm_models.chotki.sessions.clock import SessionClock
from culm_models.chotki.sessions.host import Host
from culm_models.chotki.sessions.outgoing import Outgoing
from culm_models.chotki.sessions.sync_receiver import SyncReceiver
from culm_models.chotki.settings import ChotkiSettings
from culm_models.chotki.store import StoreSnapshot
from culm_models.chotki.sync.diff import Diff, DiffRequest
from culm_models.chotki.tlv import RecordReader

_GO_REASON: Final = "closing"


class Session:
    """One connection; its H is to be sent as soon as it is made.

    `closed`: write what `take` gives, then close the transport. After that nothing is received any more.
    """

    def __init__(
        self,
        host: Host,
        settings: ChotkiSettings,
        *,
        compat: Compat,
        mode: int,
        trace: bytes,
        now_ms: int,
    ) -> None:
        self._host = host
        self._settings = settings
        self._compat = compat
        self._snapshot: StoreSnapshot | None = host.snapshot()
        vector = self._snapshot.get(GLOBAL_VECTOR_KEY) or b""
        self.mode = mode
        self.trace = trace
        self.t = Id(host.src, parse_vector(vector).get(host.src, 0))
        self.peer: Handshake | None = None
        self.sends = self.receives = self.live = False
        self.closed = False
        self.state = SessionState.NONE
        self.unwanted = 0
        self.diff: Diff | None = None
        """The own diff, while it is sent and afterwards."""
        self._events: list[events.SessionEvent] = []
        self._reader = RecordReader(settings.max_record_bytes)
        self._syncs = SyncReceiver(host, settings, compat, report=self._report, forward=self._forward)
        self._clock = SessionClock(settings, now_ms)
        self._outgoing = Outgoing()
        self._own_diff_is_out = False
        self._pong_is_due = True
        self._enter(SessionState.HANDSHAKE)
        features = READS_FILTERED_DIFFS if compat is Compat.DEFAULT else None
        self._outgoing.append(write_handshake(self.t, mode, vector, trace, features=features))
        self._enter(SessionState.DIFF)

    @property
    def is_over(self) -> bool:
        """Whether B was sent or received, or the transport lost."""
        return self.state is SessionState.NONE

    @property
    def open_syncs(self) -> list[Id]:
        """The T's of syncs whose V has not come."""
        return self._syncs.open_syncs

    @property
    def is_sent_live_packets(self) -> bool:
        """Whether live packets go to the peer, now or when the own V is out."""
        return not self.is_over and (self.peer is None or (self.live and self.sends))

    def take_events(self) -> list[events.SessionEvent]:
        """What happened since the last call."""
        found, self._events = self._events, []
        return found

    def take(self, now_ms: int, max_bytes: int | None = None) -> list[bytes]:
        """Records to send, in order; with ``max_bytes`` no further one when so many are taken.

        A diff is made while it is taken, so a caller that takes little keeps little. What comes meanwhile is
        sent behind it, but for pongs.
        """
        taken: list[bytes] = []
        size = 0
        while max_bytes is None or size < max_bytes:
            record = self._outgoing.next()
            if record is not None:
                taken.append(record)
                size += len(record)
            elif self._outgoing.has_diff:
                self._end_own_diff(now_ms)
            else:
                break
        return taken

    def receive(self, data: bytes, now_ms: int) -> None:
        """What one read of the transport gave, in any pieces."""
        if self.closed or not data:
            return
        count, at_fault = 0, b""
        self._pong_is_due = True
        try:
            for record in self._reader.feed(data):
                count, at_fault = count + 1, record
                self._receive_record(record, now_ms)
                if self.closed:
                    return
                at_fault = b""
        except ChotkiError as error:
            self._refuse(error, at_fault, now_ms)
            return
        awaited = self.peer is not None and self.receives and not self._syncs.peer_diff_is_in
        self._clock.received(now_ms, within_diff=awaited and not count)

    def tick(self, now_ms: int) -> None:
        """Do what is due: pings, time-outs, expired syncs."""
        if self.closed:
            return
        if self.is_over:
            if self._clock.is_bye_old(now_ms):
                self._shut()
            return
        try:
            self._syncs.check_expiry(now_ms)
            if self.peer is None:
                if self._clock.is_handshake_late(now_ms):
                    raise HandshakeTimeout(f"no handshake in {self._settings.ping_wait_ms} ms")
            elif self.live and self._own_diff_is_out:
                self._check_pings(now_ms)
        except ChotkiError as error:
            self._refuse(error, b"", now_ms)

    def next_due_ms(self) -> int | None:
        """When `tick` has something to do; None when only receiving changes anything."""
        if self.closed:
            return None
        if self.is_over:
            return self._clock.bye_old_at_ms()
        if self.peer is None:
            return self._clock.handshake_late_at_ms()
        due_ms = [self._syncs.next_expiry_ms()]
        if self.live and self._own_diff_is_out:
            due_ms.append(self._clock.next_ping_or_timeout_ms())
        return min((each for each in due_ms if each is not None), default=None)

    def send_live(self, record: bytes) -> None:
        """A packet of this or another replica is to reach the peer, behind the own V."""
        if not self.is_sent_live_packets:
            return
        if self._own_diff_is_out:
            self._outgoing.append(record)
        else:
            self._outgoing.hold(record)

    def close(self, now_ms: int) -> None:
        """End the session from this side."""
        self._outgoing.drop_begun_diff()
        if not self.is_over:
            self._say_bye("shutdown", now_ms)
        self._shut()

    def lost(self) -> None:
        """The transport ended."""
        if self.closed and self.is_over:
            return
        self._report(events.ConnectionLost())
        self._outgoing.clear()
        self._end()

    # Receiving.

    def _receive_record(self, record: bytes, now_ms: int) -> None:
        letter = outer_letter(record)
        if letter == "B":
            self._report(events.ByeReceived(read_bye(record)))
            self._end()
            return
        if letter == "P":
            self._receive_ping(record, now_ms)
            return
        packet = parse(record, compat=self._compat)
        if self.peer is None:
            self._receive_handshake(packet, record, now_ms)
        elif not self.receives:
            self.unwanted += 1
            self._report(events.Unwanted(letter))
        elif letter in "HDV":
            self._receive_sync(packet, record, now_ms)
        else:
            self._receive_live(packet, record)

    def _receive_ping(self, record: bytes, now_ms: int) -> None:
        word = read_ping(record)
        if self.peer is None:
            raise HandshakeMalformed("the first packet is P, not a handshake")
        if word == PING:
            self._report(events.PingReceived())
            self._answer_ping()
        elif word == PONG:
            self._report(events.PongReceived())
            self._clock.received_pong(now_ms)

    def _receive_handshake(self, packet: Packet, record: bytes, now_ms: int) -> None:
        peer = read_handshake(packet, compat=self._compat)
        if peer.t.src == self._host.src:
            if self._compat is Compat.DEFAULT:
                raise SourceCollision(f"the peer is the source {self._host.src:x}, which is this replica's")
            if self._is_own_id_beyond(peer.t):
                self._take_own_id(peer.t)
        self.peer = peer
        self.sends, self.receives, self.live = agree(self.mode, peer.mode, self._compat)
        self._report(events.PeerKnown(peer.t, peer.mode, self.live, peer.trace))
        if not (self.sends and self.live):
            self._outgoing.drop_held()
        if self.sends:
            self._outgoing.begin_diff(self._own_diff(peer))
        else:
            self._end_own_diff(now_ms)
        if self.receives:
            self._syncs.begin(peer, record, now_ms)

    def _receive_sync(self, packet: Packet, record: bytes, now_ms: int) -> None:
        """An H that is no handshake, D or V."""
        if packet.id.src == self._host.src and self._compat is Compat.DEFAULT:
            # An own sync came round: some other replica passed it on in a circle.
            self._report(events.Loop(packet.id))
        elif packet.letter == "D":
            if self._syncs.parcel(packet, record, now_ms):
                self._clock.received_diff(now_ms)
        elif packet.letter == "V":
            self._syncs.end(packet, record)
            self._end_if_one_shot_is_done(now_ms)
        else:
            found = read_handshake(packet, compat=self._compat)
            if self._is_own_id_beyond(found.t):
                self._take_own_id(found.t)
            self._syncs.open(found, record, now_ms)

    def _receive_live(self, packet: Packet, record: bytes) -> None:
        is_own_news = self._is_own_id_beyond(packet.id)
        live = read_live(packet, record, compat=self._compat)
        if is_own_news:
            self._take_own_id(packet.id)
        self._host.apply(live)
        self._report(events.PacketApplied(live.letter, live.id))
        self._forward(record)

    def _is_own_id_beyond(self, id: Id) -> bool:
        """Whether it is of the own source and beyond the counter. Raises if the source gives no such ids."""
        if id.src != self._host.src or id.pro <= self._host.counter:
            return False
        if id.off:
            raise OwnIdMalformed(f"{id} is of this replica's source, which gave no such id")
        return True

    def _take_own_id(self, id: Id) -> None:
        self._host.raise_counter(id.pro)
        self._report(events.OwnSource(id))

    # The own diff.

    def _own_diff(self, peer: Handshake) -> Iterator[bytes]:
        assert self._snapshot is not None, "a snapshot is kept until the diff is out"
        is_go = self._compat is Compat.GO
        request = DiffRequest(
            t=self.t,
            peer=parse_vector(peer.vector),
            filtered=not is_go and bool(peer.features & READS_FILTERED_DIFFS),
            max_parcel_bytes=self._settings.max_parcel_bytes,
            cut_bytes=None if is_go else self._settings.sync_cut_bytes,
            handshake=lambda vector: write_handshake(self.t, self.mode, vector, self.trace),
            compat=self._compat,
        )
        self.diff = Diff(self._snapshot, request)
        return self.diff.records()

    def _end_own_diff(self, now_ms: int) -> None:
        """The own V is out, or none is due."""
        self._outgoing.end_diff()
        self._release()
        if self.is_over:
            return
        self._own_diff_is_out = True
        if self.live:
            self._clock.start_live(now_ms)
            self._enter(SessionState.LIVE)
        else:
            self._end_if_one_shot_is_done(now_ms)

    def _end_if_one_shot_is_done(self, now_ms: int) -> None:
        if self.live or self.is_over or not self._own_diff_is_out:
            return
        if self._compat is Compat.GO or not self.receives or self._syncs.peer_diff_is_in:
            self._say_bye("done", now_ms)

    # Pings.

    def _answer_ping(self) -> None:
        """One pong a read, also in the middle of an own diff: the peer waits for nothing else."""
        if self.is_over or not self._pong_is_due:
            return
        self._pong_is_due = False
        self._enter(SessionState.PONG)
        self._outgoing.append_urgent(write_ping(PONG))
        self._enter(SessionState.LIVE if self._own_diff_is_out and self.live else SessionState.DIFF)

    def _check_pings(self, now_ms: int) -> None:
        clock = self._clock
        clock.check_answers(now_ms)
        if clock.is_ping_due(now_ms):
            self._enter(SessionState.PING)
            self._outgoing.append(write_ping(PING))
            clock.sent_ping(now_ms)
            self._enter(SessionState.LIVE)

    # The end.

    def _refuse(self, error: ChotkiError, record: bytes, now_ms: int) -> None:
        self._report(events.Refused(error.code, str(error), record))
        self._outgoing.drop_begun_diff()
        if not self.is_over:
            self._say_bye(error.code, now_ms)
        self._shut()

    def _say_bye(self, reason: str, now_ms: int) -> None:
        self._enter(SessionState.EOF)
        self._outgoing.append(write_bye(self.t, _GO_REASON if self._compat is Compat.GO else reason))
        self._clock.sent_bye(now_ms)
        self._enter(SessionState.NONE)

    def _end(self) -> None:
        """B came, or the transport ended: what was to be sent before may still be, nothing else follows."""
        if not self.is_over:
            self._enter(SessionState.NONE)
        self._shut()

    def _shut(self) -> None:
        """Nothing is received any more; what waits to be sent may still be."""
        self.closed = True
        self._syncs.forget_all()
        self._outgoing.drop_held()
        if not self._outgoing.has_diff:
            self._release()

    def _release(self) -> None:
        if self._snapshot is not None:
            self._snapshot.release()
            self._snapshot = None

    def _enter(self, state: SessionState) -> None:
        self.state = state
        self._report(events.StateEntered(state))

    def _forward(self, record: bytes) -> None:
        self._host.forward(self, record)

    def _report(self, event: events.SessionEvent) -> None:
        self._events.append(event)
