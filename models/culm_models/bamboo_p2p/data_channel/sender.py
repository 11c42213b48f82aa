"""Outgoing side of the data channel: selects the next piece and encodes it (3.7, R48, R63, R65).

An end sends the piece at its cursor if it holds it and the other end has not passed it. It passes other
pieces (received from the other end, too small, too large, or missing here) only on the way to a piece that it
can send, or to the end. Data is produced when the driver requests it, so that nothing waits in memory.
"""

from __future__ import annotations

from culm_models.bamboo_p2p.data_channel.outgoing_payloads import OutgoingPayloads
from culm_models.bamboo_p2p.data_channel.rebuilding import left_out_backlink
from culm_models.bamboo_p2p.link import ConnectionState
from culm_models.bamboo_p2p.negotiation import Negotiation
from culm_models.bamboo_p2p.requests.completion import holds_all_requested, insists_on_dropped
from culm_models.bamboo_p2p.requests.proposals import other_branch
from culm_models.bamboo_p2p.requests.request import NOTIFIED_RUNS_MAX, PayloadTrace, Request
from culm_models.bamboo_p2p.requests.sequence import LogPiece
from culm_models.bamboo_p2p.settings import TURN_BYTES, Direction
from culm_models.bamboo_p2p.store import HeldEntry
from culm_models.bamboo_p2p.wire.data import encode_data, encode_metadata
from culm_models.bamboo_p2p.wire.messages import (
    Apology,
    Cancel,
    CancelCode,
    Cancelled,
    Notify,
    Skip,
    SkipBytes,
    SkipReason,
    Switch,
)

_COALESCED = 65_536
"""Maximum number of pieces in one notify, before another request gets its slot."""


class Sender:
    """Produces the outgoing data of one connection."""

    def __init__(self, link: ConnectionState, negotiation: Negotiation) -> None:
        self._link = link
        self._negotiation = negotiation
        self._current: Request | None = None
        self._payloads = OutgoingPayloads(link)
        self._turn_payload = 0
        """Bytes of payloads in this slot, before compression."""

    def has_data(self) -> bool:
        """Whether there may be something to send. Requests that only receive wait until all has arrived."""
        link = self._link
        while link.ready and self._only_receives(link.ready[0]):
            link.next_ready()
        return bool(link.ready or link.orphaned_ends)

    def _only_receives(self, request: Request) -> bool:
        """Whether a slot would change nothing in the request. It is woken again when data arrives."""
        return (
            request.mine
            and request.direction is Direction.PULL
            and not (request.has_sent or request.apology_due or request.cancel_sent)
            and request.incoming.piece < self._limit(request)
        )

    def next_data(self) -> bytes:
        """Return the data of one slot, at most about 64 KiB; empty if there is nothing to send now."""
        link = self._link
        while link.orphaned_ends:
            return encode_data(Cancelled(link.orphaned_ends.popleft()))
        while (request := link.next_ready()) is not None:
            out = bytearray()
            if self._turn(request, out):
                link.wake(request)
            if out:
                return bytes(out)
        return b""

    def _turn(self, request: Request, out: bytearray) -> bool:
        """Append the data of one slot of a request to `out`. Returns whether it may have more to send."""
        self._turn_payload = 0
        if request.apology_due:
            self._apologise(request, out)
        if request.cancel_sent:
            if not request.data_end_sent and not request.is_parked:
                request.data_end_sent = True
                out += encode_data(Cancelled(request.id))
                if self._current is request:
                    self._current = None
                self._negotiation.free(request)
            return False
        if not request.may_send or self._link.other_setup is None:
            return False
        if not (request.mine or request.has_sent or request.direction is Direction.PULL):
            # An end that only sends may confirm before it holds entries; later ones may be of another branch.
            mismatch = other_branch(request.proposal, request.id, self._link.store)
            if mismatch is not None:
                self._negotiation.cancel(request, mismatch)
                return True
        while capacity := self._capacity(out):
            if out and self._would_be_cut(request, capacity):
                return True
            if not self._send_run(request, out) and not self._step(request, out):
                if insists_on_dropped(request, self._link.store):
                    self._negotiation.cancel(request, Cancel(request.id, CancelCode.MANDATORY))
                self._complete_if_done(request)
                return request.cancel_sent
        return True

    def _capacity(self, out: bytearray) -> int:
        """Return the bytes left in the slot. Uncompressed sizes count, too (R63)."""
        return max(TURN_BYTES - max(len(out), self._turn_payload), 0)

    def _send_run(self, request: Request, out: bytearray) -> bool:
        """Send complete consecutive entries, as many as fit the slot. Returns whether there were any.

        Everything unusual is left to `_step`, which processes one piece at a time.
        """
        wanted, outgoing, sequence = request.wanted, request.outgoing, request.sequence
        index = outgoing.piece
        run = sequence.entries_from(index)
        if run is None or not wanted.wants_metadata or request.direction is Direction.PULL:
            return False
        if request.other_passed.has(index, sequence):
            return False
        stop = self._limit(request)
        if request.incoming.offset and request.incoming.piece >= index:
            stop = min(stop, request.incoming.piece)
        first, last = run[0], min(run[1], run[0] + (stop - index) // 2 - 1)
        if last < first or not left_out_backlink(request, first):
            return False
        sent = 0
        for log_entry, payload in self._link.store.read_run(request.log, first, last, self._capacity(out)):
            size = len(payload)
            if log_entry.entry.end_of_log or not (wanted.fits(size) and wanted.wants_payload(size)):
                break
            if not sent:
                self._begin(request, out)
            out += encode_metadata(log_entry, with_backlink=False)
            self._turn_payload += size
            self._payloads.put(payload, out)
            sent += 1
            if not self._capacity(out):
                break
        if not sent:
            return False
        request.has_sent = True
        self._moved(request, 2 * sent)
        self._link.other_holds_metadata(request.log, first, first + sent)
        return True

    def _would_be_cut(self, request: Request, capacity: int) -> bool:
        """Whether the payload of the entry at the cursor fits a whole slot, but not the rest of this one.

        The other end can process a complete entry in a run; parts would be stored and verified separately.
        """
        run = request.sequence.entries_from(request.outgoing.piece)
        log_entry = self._link.store.entry(request.log, run[0]) if run is not None else None
        return log_entry is not None and capacity < log_entry.entry.payload_size <= TURN_BYTES

    def _step(self, request: Request, out: bytearray) -> bool:
        """Send or pass the piece at the cursor. Returns whether the cursor moved."""
        target = self._next_to_send(request)
        if target is None:
            return False
        index = request.outgoing.piece
        if index < target:
            self._pass_towards(request, target, out)
            return True
        if target >= self._limit(request):
            return False
        piece = request.sequence.piece(index)
        log_entry = self._link.store.entry(request.log, piece.seq_num)
        assert log_entry is not None, "only what is held is sent"
        request.has_sent = True
        if not piece.is_payload and request.wanted.wants_metadata:
            self._send_metadata(request, piece, log_entry, out)
        elif piece.is_payload and request.wanted.wants_payload(log_entry.entry.payload_size):
            self._send_payload(request, piece, log_entry, out)
        else:
            self._notify(request, self._notified_run(request), out)
        return True

    # Selection of the next piece.

    def _next_to_send(self, request: Request) -> int | None:
        """Return the index of the next piece to send, the end if all is to be passed, else None."""
        limit = self._limit(request)
        index = max(request.outgoing.piece, request.scanned)
        while index < limit:
            past = min(request.other_passed.end_of_run(index, request.sequence), limit)
            if past > index:
                index = past
                continue
            piece = request.sequence.piece(index)
            can_send, can_pass = self._judge(request, index, piece)
            if can_send:
                request.scanned = index
                return index
            if not can_pass:
                request.scanned = index
                return None
            index += 1
        request.scanned = index
        return limit if request.outgoing.piece < limit and self._may_pass_to_end(request) else None

    def _limit(self, request: Request) -> int:
        """Return the index after the last piece to send. A known end of the log limits it (R58)."""
        end_of_log = self._link.store.end_of_log(request.log)
        if end_of_log is None or end_of_log < request.proposal.start:
            return request.limit
        return min(request.limit, request.sequence.behind(end_of_log))

    def _judge(self, request: Request, index: int, piece: LogPiece) -> tuple[bool, bool]:
        """Return whether a piece that the other end has not passed can be sent, and be passed (R48, R65)."""
        store = self._link.store
        log_entry = store.entry(request.log, piece.seq_num)
        is_pull = request.direction is Direction.PULL
        if log_entry is None:
            return False, False
        if not piece.is_payload:
            return not is_pull, False
        size = log_entry.entry.payload_size
        if not request.wanted.fits(size):
            return False, True
        begins = request.first_offset(index)
        own_at = request.outgoing.offset if index == request.outgoing.piece else begins
        others_at = request.incoming.offset if index == request.incoming.piece else begins
        may_send = not is_pull and self._metadata_is_there(request, piece)
        if store.has_payload(request.log, piece.seq_num):
            # In safe mode, an end that is ahead in a payload holds all of it, so let it finish.
            return may_send and (own_at >= others_at or self._link.receives_greedily), False
        parts = store.unverified(request.log, piece.seq_num)
        if parts:
            may_send = may_send and self._link.sends_greedily and request.verified_only != index
            return may_send and max(own_at, others_at) in parts and request.wanted.wants_payload(size), False
        # After an apology, the valid payload follows when it arrives, so it is not skipped, either.
        is_awaited = request.verified_only == index or self._link.settings.expects_payload(
            request.log, piece.seq_num
        )
        return False, not (others_at > begins or request.wanted.mandatory or is_awaited)

    def _metadata_is_there(self, request: Request, piece: LogPiece) -> bool:
        """Whether the payload may be sent: if payload-only, the other end must hold the metadata (R54)."""
        if not request.proposal.payload_only:
            return True
        return self._link.metadata_at_other.has(request.log, piece.seq_num)

    def _may_pass_to_end(self, request: Request) -> bool:
        """Whether an end with nothing to send passes the rest of the sequence (R65)."""
        if request.sequence.is_open and self._limit(request) == request.sequence.size:
            return False
        mine, others = request.outgoing, request.incoming
        if others.piece >= self._limit(request):
            return True
        if request.has_sent and (mine.piece, mine.offset) >= (others.piece, others.offset):
            return True
        return not request.mine and others.furthest == (0, request.first_offset(0))

    # Encoding.

    def _begin(self, request: Request, out: bytearray) -> None:
        if self._current is not request:
            self._current = request
            out += encode_data(Switch(request.id))

    def _moved(self, request: Request, pieces: int) -> None:
        following = request.outgoing.piece + pieces
        request.unverified = None
        request.outgoing.move(following, request.first_offset(following))
        if request.verified_only is not None and request.verified_only < following:
            request.verified_only = None

    def _pass_towards(self, request: Request, target: int, out: bytearray) -> None:
        index = request.outgoing.piece
        past = min(request.other_passed.end_of_run(index, request.sequence), target)
        if past > index:
            self._notify(request, past - index, out)
            return
        piece = request.sequence.piece(index)
        log_entry = self._link.store.entry(request.log, piece.seq_num)
        assert log_entry is not None, "what is unknown is not passed"
        size, wanted = log_entry.entry.payload_size, request.wanted
        if size < wanted.min_size:
            reason = SkipReason.TOO_SMALL
        elif size > wanted.max_size:
            reason = SkipReason.TOO_LARGE
        else:
            reason = SkipReason.UNAVAILABLE
        self._begin(request, out)
        out += encode_data(Skip(reason))
        self._moved(request, 1)

    def _notify(self, request: Request, pieces: int, out: bytearray) -> None:
        self._begin(request, out)
        out += encode_data(Notify(pieces))
        index = request.outgoing.piece
        if pieces > 1 or not request.sequence.piece(index).is_payload:
            request.notified.add_coarsely(index, index + pieces, NOTIFIED_RUNS_MAX)
        self._moved(request, pieces)

    def _notified_run(self, request: Request) -> int:
        """Return the number of pieces from the cursor on that are held and requested only as notifies."""
        first = request.outgoing.piece
        limit = min(self._limit(request), first + _COALESCED)
        index = first + 1
        while index < limit and not request.other_passed.has(index, request.sequence):
            piece = request.sequence.piece(index)
            if not self._judge(request, index, piece)[0]:
                break
            log_entry = self._link.store.entry(request.log, piece.seq_num)
            wanted = request.wanted
            if log_entry is None or (
                wanted.wants_payload(log_entry.entry.payload_size)
                if piece.is_payload
                else wanted.wants_metadata
            ):
                break
            index += 1
        return index - first

    def _send_metadata(self, request: Request, piece: LogPiece, log_entry: HeldEntry, out: bytearray) -> None:
        entry = log_entry.entry
        left_out = piece.seq_num == 1 or left_out_backlink(request, piece.seq_num)
        self._begin(request, out)
        out += encode_metadata(log_entry, with_backlink=not left_out)
        self._moved(request, 1)
        self._link.other_holds_metadata(request.log, piece.seq_num, piece.seq_num + 1)
        if entry.end_of_log:
            request.ended_by = piece.seq_num

    def _send_payload(self, request: Request, piece: LogPiece, log_entry: HeldEntry, out: bytearray) -> None:
        store, cursor = self._link.store, request.outgoing
        size = log_entry.entry.payload_size
        self._begin(request, out)
        if request.incoming.piece == cursor.piece and request.incoming.offset > cursor.offset:
            out += encode_data(SkipBytes(request.incoming.offset - cursor.offset))
            cursor.move(cursor.piece, request.incoming.offset)
            return
        is_verified = store.has_payload(request.log, piece.seq_num)
        available = (
            size if is_verified else store.unverified(request.log, piece.seq_num).end_of_run(cursor.offset)
        )
        length = min(available - cursor.offset, max(self._capacity(out), 1))
        data = store.read_payload(request.log, piece.seq_num, cursor.offset, length) if length else b""
        if request.unverified is None and not is_verified:
            request.unverified = PayloadTrace(self._link.flavour, piece.seq_num)
            if cursor.offset > 0:
                request.unverified.add(cursor.offset, b"")
        if request.unverified is not None:
            request.unverified.add(cursor.offset, data)
        self._turn_payload += len(data)
        self._payloads.put(data, out)
        cursor.move(cursor.piece, cursor.offset + len(data))
        if cursor.offset >= size:
            is_wrong = request.unverified is not None and request.unverified.is_wrong(
                log_entry.entry.payload_hash
            )
            self._moved(request, 1)
            if is_wrong:
                self._apologise(request, out)

    # Ends.

    def _apologise(self, request: Request, out: bytearray) -> None:
        """Apologise for the latest piece, which was sent unverified and is wrong.

        It counts as unsent (R59).
        """
        request.apology_due = False
        if not request.may_send:
            return
        cursor = request.outgoing
        index = cursor.piece if cursor.offset > request.first_offset(cursor.piece) else cursor.piece - 1
        self._begin(request, out)
        out += encode_data(Apology())
        request.verified_only = index
        request.unverified = None
        cursor.go_back(index, request.first_offset(index))
        request.scanned = 0

    def _complete_if_done(self, request: Request) -> None:
        """Cancel with 130 if a finite sequence has been transferred completely (3.8, Completion)."""
        limit = self._limit(request)
        if request.outgoing.piece < limit or (request.sequence.is_open and limit == request.sequence.size):
            return
        latest = request.latest
        if latest is not None and latest.is_complete and not latest.is_valid:
            return
        if request.incoming.piece >= limit or holds_all_requested(request, limit, self._link.store):
            self._negotiation.cancel(request, Cancel(request.id, CancelCode.DONE))
