"""One connection between two replicas, as a state machine without I/O (reference 4).

`Session` takes bytes and the time, and returns records to send (`take`) and events. It checks received
records, sends its own diff from the snapshot that its H announced, keeps the peer's diff until V, and answers
and sends pings. Changes that take effect go to its `Host`: a `Replica` in memory, or an edge with its store.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from culm_models.chotki import events
from culm_models.chotki.compat import Compat
from culm_models.chotki.errors import (
    ChotkiError,
    HandshakeMalformed,
    HandshakeTimeout,
    SpoolFull,
)
from culm_models.chotki.events import SyncState
from culm_models.chotki.packets.handshake import Handshake, agree, read_handshake
from culm_models.chotki.packets.live import read_live
from culm_models.chotki.packets.packet import (
    Packet,
    outer_letter,
    parse,
    read_bye,
    read_ping,
    write_bye,
)
from culm_models.chotki.sessions.clock import SessionClock
from culm_models.chotki.sessions.host import Host
from culm_models.chotki.sessions.outgoing import OutgoingRecords
from culm_models.chotki.sessions.own_diff import OwnDiff
from culm_models.chotki.sessions.own_ids import OwnIds
from culm_models.chotki.sessions.pings import Pings
from culm_models.chotki.sessions.sync_receiver import SyncReceiver
from culm_models.chotki.settings import ChotkiSettings
from culm_models.chotki.sync.open_syncs import OpenSync
from culm_models.chotki.sync.progress import Progress
from culm_models.chotki.tlv import RecordReader

_GO_REASON: Final = "closing"


class Session:
    """One connection; its H is queued for sending on construction.

    `closed`: write what `take` returns, then close the transport. After that nothing is received.
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
        self._diff = OwnDiff(host.snapshot(), host.src, settings, compat)
        self.mode = mode
        self.trace = trace
        self.t = self._diff.t
        self.peer: Handshake | None = None
        self.sends = self.receives = self.live = False
        self.closed = False
        self.state = SyncState.NONE
        self.unwanted = 0
        self._events: list[events.SessionEvent] = []
        self._reader = RecordReader(settings.max_record_bytes)
        self._own_ids = OwnIds(host, self._report)
        forward = partial(host.forward, self)
        self._syncs = SyncReceiver(
            host, settings, compat, self._own_ids, report=self._report, forward=forward
        )
        self._clock = SessionClock(settings, now_ms)
        self._outgoing = OutgoingRecords()
        self._pings = Pings(self._clock, self._outgoing, report=self._report, enter=self._enter)
        self._is_in_parcel = False
        self._enter(SyncState.HANDSHAKE)
        self._outgoing.append(self._diff.handshake(mode, trace))
        self._enter(SyncState.DIFF)

    @property
    def is_over(self) -> bool:
        """Whether B was sent or received, or the transport was lost."""
        return self.state is SyncState.NONE

    @property
    def open_syncs(self) -> list[OpenSync]:
        """Syncs whose V has not arrived."""
        return self._syncs.open_syncs

    def progress(self) -> tuple[Progress, Progress]:
        """Return the progress of this side's diff and of the peer's; all 0 before the peer's handshake."""
        return self._diff.progress(), self._syncs.progress.now()

    @property
    def is_making_diff(self) -> bool:
        """Whether there is more to `take` although it returned nothing: it pauses so that others can run."""
        return self._outgoing.has_diff

    @property
    def is_sent_live_packets(self) -> bool:
        """Whether live packets go to the peer, now or after this side's V."""
        return not self.is_over and (self.peer is None or (self.live and self.sends))

    def take_events(self) -> list[events.SessionEvent]:
        """Return the events since the last call."""
        taken, self._events = self._events, []
        return taken

    def take(self, now_ms: int, max_bytes: int | None = None) -> list[bytes]:
        """Return records to send, in order; with ``max_bytes`` stop once that many bytes are taken.

        A diff is made while it is taken, so a caller that takes little keeps little. With ``max_bytes`` the
        result may also be shorter, see `is_making_diff`. Records that are queued meanwhile follow the diff,
        except for pongs.
        """
        return self._outgoing.take(max_bytes, on_diff_end=partial(self._end_own_diff, now_ms))

    def receive(self, data: bytes, now_ms: int) -> None:
        """Take the data of one read of the transport, split anywhere."""
        for _ in self.receive_in_turns(data, now_ms):
            pass

    def receive_in_turns(self, data: bytes, now_ms: int) -> Iterator[None]:
        """Do the work of `receive` and yield after each record and within a D, so that others may run.

        They may call `take`, `tick` and `close`. The iterator must be exhausted before more data is received.
        """
        if self.closed or not data:
            return
        count, at_fault = 0, b""
        self._pings.begin_read()
        self._clock.received(now_ms)
        try:
            for record in self._reader.feed(data):
                count, at_fault = count + 1, record
                if outer_letter(record) == "D":
                    self._is_in_parcel = True
                    for _ in self._receive_parcel(record, now_ms):
                        yield
                        if self.closed:
                            return
                    self._is_in_parcel = False
                else:
                    self._receive_record(record, now_ms)
                    yield
                if self.closed:
                    return
                at_fault = b""
        except ChotkiError as error:
            self._refuse(error, b"" if isinstance(error, SpoolFull) else at_fault, now_ms)
            return
        if not count and self.peer is not None and self.receives and not self._syncs.peer_diff_is_in:
            # The data ends in the middle of a record of the awaited diff.
            self._clock.received_diff(now_ms)

    def tick(self, now_ms: int) -> None:
        """Do what is due: pings, time-outs and the expiry of syncs."""
        if self.closed:
            return
        if self.is_over:
            if self._clock.is_bye_old(now_ms):
                self._shut()
            return
        if self._is_in_parcel:
            # The peer is not silent: its data is still being processed.
            self._clock.received(now_ms)
            self._clock.received_diff(now_ms)
        try:
            self._syncs.check_expiry(now_ms)
            if self.peer is None:
                if self._clock.is_handshake_late(now_ms):
                    raise HandshakeTimeout(f"no handshake in {self._settings.ping_wait_ms} ms")
            elif self.state is SyncState.LIVE:
                self._pings.check(now_ms)
        except ChotkiError as error:
            self._refuse(error, b"", now_ms)

    def next_due_ms(self) -> int | None:
        """Return the time at which `tick` is due, or None if nothing is planned."""
        if self.closed:
            return None
        if self.is_over:
            return self._clock.bye_old_at_ms()
        if self.peer is None:
            return self._clock.handshake_late_at_ms()
        due_ms = [self._syncs.next_expiry_ms()]
        if self.state is SyncState.LIVE:
            due_ms.append(self._clock.next_ping_or_timeout_ms())
        return min((each for each in due_ms if each is not None), default=None)

    def send_live(self, record: bytes) -> None:
        """Send a packet of this or another replica to the peer, behind this side's V."""
        if self.is_sent_live_packets:
            self._outgoing.append_live(record)

    def close(self, now_ms: int) -> None:
        """End the session from this side."""
        self._outgoing.drop_begun_diff()
        if not self.is_over:
            self._say_bye("shutdown", now_ms)
        self._shut()

    def fail(self, error: ChotkiError, now_ms: int) -> None:
        """End the session because of an error that its owner found: the peer receives the code."""
        if not self.closed:
            self._refuse(error, b"", now_ms)

    def lost(self) -> None:
        """Handle the end of the transport."""
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
        elif letter == "H":
            self._syncs.open(packet, record, now_ms)
        elif letter == "V":
            self._syncs.end(packet, record)
            self._end_if_one_shot_is_done(now_ms)
        else:
            self._receive_live(packet, record)

    def _receive_ping(self, record: bytes, now_ms: int) -> None:
        word = read_ping(record)
        if self.peer is None:
            raise HandshakeMalformed("the first packet is P, not a handshake")
        self._pings.receive(word, self.state, now_ms)

    def _receive_handshake(self, packet: Packet, record: bytes, now_ms: int) -> None:
        peer = read_handshake(packet, compat=self._compat)
        self._own_ids.check_peer(peer.t, self._compat)
        self.peer = peer
        self.sends, self.receives, self.live = agree(self.mode, peer.mode, self._compat)
        self._report(events.PeerKnown(peer.t, peer.mode, self.live, peer.trace))
        if not (self.sends and self.live):
            self._outgoing.drop_held()
        if self.sends:
            self._outgoing.begin_diff(self._diff.records(peer, self.mode, self.trace))
        else:
            self._end_own_diff(now_ms)
        if self.receives:
            self._syncs.begin(peer, record, self._diff.announced, now_ms)

    def _receive_parcel(self, record: bytes, now_ms: int) -> Iterator[None]:
        parcel = self._syncs.read_parcel(record)
        yield from parcel.check()
        if self.peer is None:
            raise HandshakeMalformed("the first packet is D, not a handshake")
        if not self.receives:
            self.unwanted += 1
            self._report(events.Unwanted("D"))
            return
        yield from self._syncs.parcel(parcel, len(record), now_ms)
        if parcel.t == self.peer.t:
            self._clock.received_diff(now_ms)

    def _receive_live(self, packet: Packet, record: bytes) -> None:
        is_own_news = self._own_ids.is_beyond(packet.id)
        live = read_live(packet, record, compat=self._compat)
        if is_own_news:
            self._own_ids.take(packet.id)
        self._host.apply(live)
        self._report(events.PacketApplied(live.letter, live.id))
        self._host.forward(self, record)

    # This side's diff.

    def _end_own_diff(self, now_ms: int) -> None:
        """End this side's diff: its V was sent, or no diff is due."""
        self._outgoing.end_diff()
        self._diff.release()
        if self.is_over:
            return
        if self.live:
            self._clock.start_live(now_ms)
            self._enter(SyncState.LIVE)
        else:
            self._end_if_one_shot_is_done(now_ms)

    def _end_if_one_shot_is_done(self, now_ms: int) -> None:
        if self.live or self.is_over or not self._outgoing.diff_is_out:
            return
        if self._compat is Compat.GO or not self.receives or self._syncs.peer_diff_is_in:
            self._say_bye("done", now_ms)

    # The end.

    def _refuse(self, error: ChotkiError, record: bytes, now_ms: int) -> None:
        self._report(events.SessionRefused(error.code, str(error), record))
        self._outgoing.drop_begun_diff()
        if not self.is_over:
            self._say_bye(error.code, now_ms)
        self._shut()

    def _say_bye(self, reason: str, now_ms: int) -> None:
        self._enter(SyncState.EOF)
        self._outgoing.append(write_bye(self.t, _GO_REASON if self._compat is Compat.GO else reason))
        self._clock.sent_bye(now_ms)
        self._enter(SyncState.NONE)

    def _end(self) -> None:
        """End without B: B arrived, or the transport ended. Queued records may still be sent."""
        if not self.is_over:
            self._enter(SyncState.NONE)
        self._shut()

    def _shut(self) -> None:
        """Stop receiving; queued records may still be sent."""
        self.closed = True
        self._syncs.forget_all()
        self._outgoing.drop_held()
        if not self._outgoing.has_diff:
            self._diff.release()

    def _enter(self, state: SyncState) -> None:
        self.state = state
        self._report(events.StateEntered(state))

    def _report(self, event: events.SessionEvent) -> None:
        self._events.append(event)
