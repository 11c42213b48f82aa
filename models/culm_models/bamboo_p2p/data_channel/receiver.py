"""The data channel, incoming: whose turn it is, how far the other end is, and what it brought (3.7)."""

from __future__ import annotations

from enum import Enum

from culm_models.bamboo_p2p import events
from culm_models.bamboo_p2p.data_channel.incoming_payload import IncomingPayload
from culm_models.bamboo_p2p.data_channel.rebuilding import (
    LinkUnknown,
    fork_with_held,
    left_out_backlink,
    rebuild_entry,
)
from culm_models.bamboo_p2p.errors import (
    ApologyViolated,
    CompressionViolated,
    CurrentViolated,
    DataInvalid,
    DataUnwanted,
    LimitReached,
    PieceViolated,
)
from culm_models.bamboo_p2p.link import Link
from culm_models.bamboo_p2p.negotiation import Negotiation
from culm_models.bamboo_p2p.requests.request import LatestPiece, Request
from culm_models.bamboo_p2p.requests.sequence import Piece
from culm_models.bamboo_p2p.settings import UNCHANGING_MESSAGES_MAX
from culm_models.bamboo_p2p.wire.data import decode_data
from culm_models.bamboo_p2p.wire.messages import (
    Apology,
    Cancel,
    CancelCode,
    Cancelled,
    CompressedPayload,
    DataMessage,
    Metadata,
    Notify,
    RawPayload,
    Skip,
    SkipBytes,
    SkipReason,
    Switch,
)
from culm_models.lzfoo import Decompressor, LzfooError

_COMPRESSED_SLACK = 16
_MOVED_BYTES = 65_536


class _Verdict(Enum):
    """What became of a message."""

    CHANGED = "changed"
    NO_CHANGE = "no_change"
    WAIT = "wait"


class Receiver:
    """Reads the data channel of one connection.

    `feed` takes bytes as they come. Bytes that cannot be understood yet stay here: until the setup is read,
    and while data waits for a control message that it overtook (R4, R7, R9). `is_waiting` says so; the driver
    then leaves the channel unread, so that what stays is bounded by its window.
    """

    def __init__(self, link: Link, negotiation: Negotiation) -> None:
        self._link = link
        self._negotiation = negotiation
        self._buffer = bytearray()
        self._at = 0
        self._current: Request | None = None
        self._streams: dict[Request, IncomingPayload] = {}
        self._body: IncomingPayload | None = None
        self._decompressor: Decompressor | None = None
        self._unchanging = 0
        self.is_waiting = False

    def feed(self, data: bytes) -> None:
        """Take bytes of the data channel. Raises the `BambooP2pError` that ends the connection."""
        self._buffer += data
        self.resume()

    def resume(self) -> None:
        """Read on, as far as it goes; after every control message, too."""
        self.is_waiting = False
        if self._link.other_setup is None:
            self.is_waiting = bool(self._buffer)
            return
        while self._step():
            if self._at >= _MOVED_BYTES:
                del self._buffer[: self._at]
                self._at = 0
        del self._buffer[: self._at]
        self._at = 0

    def _step(self) -> bool:
        """Read one message, or a part of a payload; whether there may be more to read."""
        if self._body is not None:
            return self._read_body(self._body)
        found = decode_data(self._buffer, self._at, self._link.flavour, self._expects_backlink)
        if found is None:
            return False
        message, end = found
        verdict = self._take(message)
        if verdict is _Verdict.WAIT:
            self.is_waiting = True
            return False
        self._at = end
        self._unchanging = 0 if verdict is _Verdict.CHANGED else self._unchanging + 1
        if self._unchanging > UNCHANGING_MESSAGES_MAX:
            raise LimitReached("too many data messages in a row that change nothing")
        return True

    def _expects_backlink(self) -> bool:
        request = self._required()
        self._pass_unknown_payload(request)
        piece = self._piece(request)
        if piece.is_payload:
            raise PieceViolated(f"metadata came where the payload of {piece.seq_num} must")
        return not left_out_backlink(request, piece.seq_num)

    def _take(self, message: DataMessage) -> _Verdict:
        if isinstance(message, Switch):
            return self._switch(message)
        if isinstance(message, Cancelled):
            return self._end(message)
        request = self._required()
        if request.is_position_lost:
            return self._frame_alone(request, message)
        if isinstance(message, Metadata):
            self._metadata(request, message)
        elif isinstance(message, RawPayload):
            return self._begin_payload(request, message.length, None)
        elif isinstance(message, CompressedPayload):
            return self._begin_payload(request, message.length, message.compressed_length)
        elif isinstance(message, Notify):
            return self._notify(request, message.pieces)
        elif isinstance(message, Skip):
            self._skip(request, message.reason)
        elif isinstance(message, SkipBytes):
            return self._skip_bytes(request, message.length)
        else:
            assert isinstance(message, Apology), "every other message is above"
            self._apology(request)
        return _Verdict.CHANGED

    # The current request.

    def _required(self) -> Request:
        if self._current is None:
            raise CurrentViolated("data came without a current request")
        return self._current

    def _switch(self, message: Switch) -> _Verdict:
        link = self._link
        request = link.requests.of_data(message.id)
        if request is None or request.data_end_received:
            raise CurrentViolated(f"there is no request {message.id} to switch to")
        if not request.confirmed:
            if request.mine and not request.cancel_received:
                return _Verdict.WAIT
            raise CurrentViolated(f"the request {message.id} is not confirmed")
        if request is self._current:
            return _Verdict.NO_CHANGE
        self._current = request
        return _Verdict.CHANGED

    def _end(self, message: Cancelled) -> _Verdict:
        """No further data of a request will come (R9, R57)."""
        link = self._link
        if link.requests.ignored_end_came(message.id):
            self._negotiation.unpark(message.id)
            return _Verdict.CHANGED
        request = link.requests.of_data(message.id)
        if request is None or request.data_end_received:
            is_theirs = message.id % 2 != link.parity
            if is_theirs and (request is None or request.cancel_sent):
                return _Verdict.WAIT
            raise CurrentViolated(f"there is no request {message.id} whose data could end")
        request.data_end_received = True
        if request is self._current:
            self._current = None
        self._streams.pop(request, None)
        self._abandon_unverified(request)
        self._negotiation.free(request)
        return _Verdict.CHANGED

    def _abandon_unverified(self, request: Request) -> None:
        latest = request.latest
        if latest is not None and latest.is_complete and not latest.is_valid:
            piece = request.sequence.piece(latest.index)
            if piece.is_payload:
                self._link.discard_unverified(request, piece.seq_num)
            request.latest = None

    # Where the other end is.

    def _piece(self, request: Request) -> Piece:
        index = request.incoming.piece
        if index >= request.sequence.size:
            raise PieceViolated("data came past the end of the request")
        latest = request.latest
        if latest is not None and latest.is_complete and not latest.is_valid and not request.is_discarding:
            raise DataInvalid("data was invalid, and more followed without an apology")
        piece = request.sequence.piece(index)
        if request.ended_by is not None and piece.seq_num > request.ended_by and not request.is_discarding:
            raise DataInvalid(f"entry {piece.seq_num} follows the end of the log, {request.ended_by}")
        return piece

    def _pass_unknown_payload(self, request: Request) -> None:
        """Metadata behind a payload of unknown size says that the payload is over (R54)."""
        index = request.incoming.piece
        if request.is_discarding and index < request.sequence.size:
            piece = request.sequence.piece(index)
            if piece.is_payload and self._size(request, piece) is None:
                self._pass(request, 1)

    def _size(self, request: Request, piece: Piece) -> int | None:
        """The size of the payload at the incoming cursor, if its metadata is known."""
        if request.incoming_size is not None:
            return request.incoming_size
        held = self._link.store.entry(request.log, piece.seq_num)
        return held.entry.payload_size if held is not None else None

    def _pass(self, request: Request, pieces: int) -> None:
        """The other end is so many pieces further."""
        first = request.incoming.piece + pieces
        request.incoming.move(first, request.first_offset(first))
        request.incoming_size = None
        self._streams.pop(request, None)
        self._link.wake(request)

    def _notify(self, request: Request, pieces: int) -> _Verdict:
        if not pieces:
            return _Verdict.NO_CHANGE
        first = request.incoming.piece
        self._piece(request)
        end = first + pieces
        if end > request.sequence.size:
            raise PieceViolated(f"{pieces} pieces were notified of, {request.sequence.size - first} are left")
        if not request.is_discarding:
            self._check_notified(request, max(first, request.outgoing.furthest[0]), end)
        request.other_passed.add(first, end)
        self._remember_notified(request, first, end)
        request.latest = None
        self._pass(request, pieces)
        self._link.report(events.PiecesNotified(request.id, pieces))
        return _Verdict.CHANGED

    def _check_notified(self, request: Request, first: int, end: int) -> None:
        """Whether notifies from `first` on, which this end has not passed itself, were asked for (R46)."""
        own = request.own
        if first >= end or own.ever_notified:
            return
        # Between two payloads there is metadata, of which no notify was asked for.
        if not own.admits_notify(None) or (end - first > 1 and not request.proposal.payload_only):
            raise DataUnwanted("a notify came where data was asked for")
        start = request.sequence.piece(first)
        if not start.is_payload:
            raise DataUnwanted(f"a notify came for the metadata of {start.seq_num}")
        last = request.sequence.piece(end - 1).seq_num
        for seq_num in self._link.store.held_between(request.log, start.seq_num, last):
            held = self._link.store.entry(request.log, seq_num)
            if held is not None and request.sequence.payload_index(seq_num) is not None:
                size = held.entry.payload_size
                if not own.admits_notify(size):
                    raise DataUnwanted(f"a notify came for the payload of {seq_num}, which was asked for")

    def _remember_notified(self, request: Request, first: int, end: int) -> None:
        """Of what this end has not sent, the metadata is not pinned; the other end says it holds it."""
        own = max(first, request.outgoing.furthest[0])
        request.notified_metadata.add(own, end)
        for begin, last in request.sequence.metadata_runs(own, end):
            self._link.other_holds_metadata(request.log, begin, last + 1)

    def _skip(self, request: Request, reason: SkipReason) -> None:
        piece = self._piece(request)
        if not piece.is_payload:
            raise PieceViolated(f"a skip came where the metadata of {piece.seq_num} must")
        size, own = self._size(request, piece), request.own
        if not request.is_discarding and (
            (reason is SkipReason.UNAVAILABLE and own.mandatory)
            or (reason is SkipReason.TOO_SMALL and size is not None and size >= own.min_size)
            or (reason is SkipReason.TOO_LARGE and size is not None and size <= own.max_size)
        ):
            raise DataUnwanted(f"the payload of {piece.seq_num} was skipped: {reason.name.lower()}")
        request.latest = None
        self._pass(request, 1)
        self._link.report(events.PayloadSkipped(request.id, piece.seq_num, reason))

    def _skip_bytes(self, request: Request, length: int) -> _Verdict:
        if not length:
            return _Verdict.NO_CHANGE
        piece = self._piece(request)
        if not piece.is_payload:
            raise PieceViolated(f"bytes were skipped where the metadata of {piece.seq_num} must come")
        size = self._size(request, piece)
        if request.is_discarding and size is None:
            return _Verdict.CHANGED
        index, offset = request.incoming.piece, request.incoming.offset
        sent_piece, sent_bytes = request.outgoing.furthest
        sent = sent_bytes if sent_piece == index else (size or 0) if sent_piece > index else 0
        if size is None or offset + length > min(sent, size):
            raise DataUnwanted(f"{length} bytes were skipped that this end has not sent")
        request.incoming.move(index, offset + length)
        request.latest = None
        self._stream(request, piece, size).skipped()
        if offset + length == size:
            self._payload_complete(request, piece)
        self._link.wake(request)
        return _Verdict.CHANGED

    # Metadata.

    def _metadata(self, request: Request, message: Metadata) -> None:
        piece = self._piece(request)
        link = self._link
        if not request.own.admits_metadata and not request.is_discarding:
            raise DataUnwanted(f"metadata of {piece.seq_num} came where notifies alone were asked for")
        index = request.incoming.piece
        if request.is_discarding:
            self._passed_metadata(request, message, index, is_valid=True)
            return
        try:
            held = rebuild_entry(request, piece.seq_num, message, link.store)
        except LinkUnknown:
            self._give_up(request)
            self._passed_metadata(request, message, index, is_valid=True)
            return
        if held is None:
            if not link.receives_greedily:
                raise DataInvalid(f"entry {piece.seq_num} is not what its author signed")
            self._passed_metadata(request, message, index, is_valid=False)
            return
        proof = fork_with_held(held, link.store)
        if proof is not None:
            link.found_fork(request, proof)
            self._negotiation.cancel(request, Cancel(request.id, CancelCode.FORKED, entries=proof))
            request.is_discarding = True
        else:
            link.other_holds_metadata(request.log, piece.seq_num, piece.seq_num + 1)
            if message.end_of_log:
                request.ended_by = piece.seq_num
            link.keep_entry(request, held)
        self._passed_metadata(request, message, index, is_valid=True)

    def _passed_metadata(self, request: Request, message: Metadata, index: int, *, is_valid: bool) -> None:
        request.latest = LatestPiece(index, is_complete=True, is_valid=is_valid)
        if is_valid:
            request.other_passed.add(index, index + 1)
        self._pass(request, 1)
        following = request.incoming.piece
        if following < request.sequence.size and request.sequence.piece(following).is_payload:
            request.incoming_size = message.payload_size

    def _give_up(self, request: Request) -> None:
        """What comes cannot be checked here: cancel, and throw away what is still on its way (R54)."""
        self._negotiation.cancel(request, Cancel(request.id, CancelCode.REFUSED))
        request.is_discarding = True

    # Payloads.

    def _stream(self, request: Request, piece: Piece, size: int) -> IncomingPayload:
        stream = self._streams.get(request)
        if stream is None:
            stream = self._streams[request] = IncomingPayload(self._link, request, piece.seq_num, size)
        return stream

    def _begin_payload(self, request: Request, length: int, compressed_length: int | None) -> _Verdict:
        self._check_compression(length, compressed_length)
        piece = self._piece(request)
        if not piece.is_payload:
            raise PieceViolated(f"a payload came where the metadata of {piece.seq_num} must")
        size = self._size(request, piece)
        if size is None:
            self._give_up(request)
            request.is_position_lost = request.proposal.payload_only
            self._body = IncomingPayload(self._link, request, piece.seq_num, None)
            self._body.begin(length, compressed_length)
            return _Verdict.CHANGED
        index, offset = request.incoming.piece, request.incoming.offset
        if length > size - offset:
            raise PieceViolated(f"{length} bytes came of a payload of which {size - offset} are left")
        if not length and offset < size and not compressed_length:
            return _Verdict.NO_CHANGE
        if not request.is_discarding and not request.own.admits_payload(size):
            raise DataUnwanted(f"a payload of {size} bytes came that was not asked for")
        request.latest = LatestPiece(index)
        self._body = self._stream(request, piece, size)
        self._body.begin(length, compressed_length)
        return _Verdict.CHANGED

    def _frame_alone(self, request: Request, message: DataMessage) -> _Verdict:
        """Throw away what comes of a request in which no position can be checked any more (R54)."""
        if isinstance(message, RawPayload | CompressedPayload):
            self._body = IncomingPayload(self._link, request, 0, None)
            compressed = message.compressed_length if isinstance(message, CompressedPayload) else None
            self._check_compression(message.length, compressed)
            self._body.begin(message.length, compressed)
        return _Verdict.CHANGED

    def _check_compression(self, length: int, compressed_length: int | None) -> None:
        if compressed_length is None:
            return
        if not self._link.receive_window:
            raise CompressionViolated("compressed data came, and the window is 0")
        if compressed_length > 2 * length + _COMPRESSED_SLACK:
            raise CompressionViolated(f"{compressed_length} compressed bytes stand for {length}")

    def _read_body(self, body: IncomingPayload) -> bool:
        """Take what there is of a payload's bytes; whether the message is over."""
        wanted = min(body.left, _MOVED_BYTES)
        chunk = bytes(memoryview(self._buffer)[self._at : self._at + wanted])
        self._at += len(chunk)
        request = body.request
        if chunk or not body.left:
            if body.is_compressed:
                if self._decompressor is None:
                    self._decompressor = Decompressor(self._link.receive_window)
                try:
                    plain = body.decompress(self._decompressor, chunk)
                except LzfooError as error:
                    raise CompressionViolated(str(error)) from None
            else:
                plain = body.raw(chunk)
            if plain and body.size is not None:
                offset = request.incoming.offset
                body.keep(offset, plain)
                request.incoming.move(request.incoming.piece, offset + len(plain))
        if body.left:
            return False if not chunk else self._at < len(self._buffer)
        self._body = None
        if body.size is not None and request.incoming.offset == body.size:
            self._payload_complete(request, request.sequence.piece(request.incoming.piece))
        self._link.wake(request)
        return True

    def _payload_complete(self, request: Request, piece: Piece) -> None:
        """All bytes of a payload came or were passed over: verify it (R49, R55, R56)."""
        link, index = self._link, request.incoming.piece
        stream = self._streams[request]
        was_data = request.latest is not None and request.latest.index == index
        is_valid = request.is_discarding or stream.verify()
        if not is_valid and not stream.is_of_the_other_alone:
            # Put together from both ends, or behind bytes that were here before: nobody's fault.
            link.discard_unverified(request, piece.seq_num)
            again = CancelCode.REFUSED if request.first_offset(index) else CancelCode.RESOURCES
            self._negotiation.cancel(request, Cancel(request.id, again))
            link.propose_again(request, from_beginning=bool(request.first_offset(index)))
            request.is_discarding = True
            is_valid = True
        elif not is_valid and request.proposal.payload_only:
            link.discard_unverified(request, piece.seq_num)
            self._give_up(request)
            is_valid = True
        elif not is_valid and not link.receives_greedily:
            raise DataInvalid(f"the payload of {piece.seq_num} is not the one that its entry names")
        if was_data:
            request.latest = LatestPiece(index, is_complete=True, is_valid=is_valid)
        if is_valid:
            request.other_passed.add(index, index + 1)
        self._pass(request, 1)

    def _apology(self, request: Request) -> None:
        """The latest piece counts as never sent (R59)."""
        if request.is_discarding:
            return
        latest = request.latest
        if (
            latest is None
            or request.received_apology == latest.index
            or (latest.is_complete and (latest.is_valid or not self._link.receives_greedily))
        ):
            raise ApologyViolated("an apology came for valid data, for nothing, or a second time")
        request.received_apology = latest.index
        request.latest = None
        piece = request.sequence.piece(latest.index)
        if piece.is_payload:
            self._link.discard_unverified(request, piece.seq_num)
        request.incoming.go_back(latest.index, request.first_offset(latest.index))
        self._streams.pop(request, None)
        self._link.report(events.ApologyReceived(request.id))
        self._link.wake(request)
