"""Incoming side of the data channel: reads messages and assigns them to requests (3.7)."""

from __future__ import annotations

from enum import Enum

from culm_models.bamboo_p2p.data_channel.incoming_payload import IncomingPayload
from culm_models.bamboo_p2p.data_channel.incoming_pieces import IncomingPieces
from culm_models.bamboo_p2p.data_channel.incoming_runs import IncomingRuns
from culm_models.bamboo_p2p.data_channel.rebuilding import (
    left_out_backlink,
)
from culm_models.bamboo_p2p.errors import (
    CompressionViolated,
    CurrentViolated,
    LimitReached,
    PieceViolated,
)
from culm_models.bamboo_p2p.link import ConnectionState
from culm_models.bamboo_p2p.negotiation import Negotiation
from culm_models.bamboo_p2p.requests.request import Request
from culm_models.bamboo_p2p.settings import (
    COMPRESSED_BYTES_MAX,
    COMPRESSED_SLACK_BYTES,
    MESSAGES_A_TURN,
    PLAIN_BYTES_A_TURN,
    UNCHANGING_MESSAGES_MAX,
)
from culm_models.bamboo_p2p.wire.data import decode_data
from culm_models.bamboo_p2p.wire.messages import (
    Apology,
    Cancelled,
    CompressedPayload,
    DataMessage,
    Metadata,
    Notify,
    RawPayload,
    Skip,
    SkipBytes,
    Switch,
)
from culm_models.lzfoo import Decompressor, LzfooError

_MOVED_BYTES = 65_536


class _Outcome(Enum):
    """The result of processing a message."""

    CHANGED = "changed"
    NO_CHANGE = "no_change"
    WAIT = "wait"


def _changed(changed: bool) -> _Outcome:
    return _Outcome.CHANGED if changed else _Outcome.NO_CHANGE


class Receiver:
    """Reads the data channel of one connection.

    `feed` takes bytes split anywhere. Bytes are buffered until the setup has been received, and while data
    waits for a control message that it has overtaken (R4, R7, R9). `is_waiting` is then true and the driver
    stops reading the channel, so that the buffer is bounded by the channel's window.

    One call processes a limited number of messages and of decompressed bytes. If data is left, `is_left` is
    true, and the driver calls `feed` again after it has handled the results.
    """

    def __init__(self, link: ConnectionState, negotiation: Negotiation) -> None:
        self._link = link
        self._negotiation = negotiation
        self._buffer = bytearray()
        self._at = 0
        self._current: Request | None = None
        self._pieces = IncomingPieces(link, negotiation)
        self._runs = IncomingRuns(link, self._decompress)
        self._body: IncomingPayload | None = None
        self._decompressor: Decompressor | None = None
        self._unchanging = 0
        self._plain_left = PLAIN_BYTES_A_TURN
        self.is_waiting = self.is_left = False
        self.messages_read = 0

    def feed(self, data: bytes) -> None:
        """Add bytes of the data channel. Raises the `BambooP2pError` that ends the connection."""
        self._buffer += data
        self.resume()

    def resume(self) -> None:
        """Continue to process buffered data for one slice.

        Also called after a control message, if data waits for it. Raises the `BambooP2pError` that ends the
        connection.
        """
        self.is_waiting = self.is_left = False
        self._plain_left = PLAIN_BYTES_A_TURN
        if self._link.other_setup is None:
            self.is_waiting = bool(self._buffer)
            return
        steps_left = MESSAGES_A_TURN
        while self._step():
            steps_left -= 1
            if self._plain_left <= 0 or not steps_left:
                self.is_left = self._at < len(self._buffer)
                break
            if self._at >= _MOVED_BYTES:
                del self._buffer[: self._at]
                self._at = 0
        del self._buffer[: self._at]
        self._at = 0

    def _step(self) -> bool:
        """Read a message, a run of entries or a part of a payload.

        Returns whether there may be more to read.
        """
        if self._body is not None:
            return self._read_body(self._body)
        if self._current is not None and self._take_run(self._current):
            return True
        decoded = decode_data(self._buffer, self._at, self._link.flavour, self._expects_backlink)
        if decoded is None:
            return False
        message, end = decoded
        outcome = self._take(message)
        if outcome is _Outcome.WAIT:
            self.is_waiting = True
            return False
        self._at = end
        self.messages_read += 1
        self._unchanging = 0 if outcome is _Outcome.CHANGED else self._unchanging + 1
        if self._unchanging >= UNCHANGING_MESSAGES_MAX:
            raise LimitReached("too many data messages in a row that change nothing")
        return True

    def _take_run(self, request: Request) -> bool:
        """Take complete consecutive entries from the buffer. Returns whether there were any."""
        run = self._runs.take(request, self._buffer, self._at)
        if not run.messages:
            return False
        self._at += run.length
        self.messages_read += run.messages
        self._unchanging = 0
        if run.left_over is not None:
            payload = self._pieces.begin_payload(request, len(run.left_over), None)
            if payload is not None:
                payload.taken()
                self._keep(payload, run.left_over)
                self._pieces.moved(payload)
        return True

    def _expects_backlink(self) -> bool:
        request = self._required()
        if request.is_position_lost:
            # No payload size looks like a hash: after a size of 0, the hash begins with one more 0.
            prefix = self._link.flavour.prefix
            return bytes(self._buffer[self._at + 1 : self._at + 1 + len(prefix)]) == prefix
        self._pieces.pass_unknown_payload(request)
        piece = self._pieces.piece(request)
        if piece.is_payload:
            raise PieceViolated(f"received metadata instead of the payload of {piece.seq_num} must")
        return not left_out_backlink(request, piece.seq_num)

    def _take(self, message: DataMessage) -> _Outcome:
        if isinstance(message, Switch):
            return self._switch(message)
        if isinstance(message, Cancelled):
            return self._end(message)
        request = self._required()
        if isinstance(message, RawPayload):
            return self._begin_payload(request, message.length, None)
        if isinstance(message, CompressedPayload):
            return self._begin_payload(request, message.length, message.compressed_length)
        if request.is_position_lost:
            return _Outcome.CHANGED
        if isinstance(message, Metadata):
            self._pieces.metadata(request, message)
        elif isinstance(message, Notify):
            return _changed(self._pieces.notify(request, message.pieces))
        elif isinstance(message, Skip):
            self._pieces.skip(request, message.reason)
        elif isinstance(message, SkipBytes):
            return _changed(self._pieces.skip_bytes(request, message.length))
        else:
            assert isinstance(message, Apology), "every other message is above"
            self._pieces.apology(request)
        return _Outcome.CHANGED

    # The current request.

    def _required(self) -> Request:
        if self._current is None:
            raise CurrentViolated("data came without a current request")
        return self._current

    def _switch(self, message: Switch) -> _Outcome:
        link = self._link
        request = link.requests.of_data(message.id)
        if request is None or request.data_end_received:
            raise CurrentViolated(f"there is no request {message.id} to switch to")
        if not request.confirmed:
            if request.mine and not request.cancel_received:
                return _Outcome.WAIT
            raise CurrentViolated(f"the request {message.id} is not confirmed")
        if request is self._current:
            return _Outcome.NO_CHANGE
        self._current = request
        return _Outcome.CHANGED

    def _end(self, message: Cancelled) -> _Outcome:
        """Handle the last data message of a request (R9, R57)."""
        link = self._link
        if link.requests.ignored_end_came(message.id):
            self._negotiation.unpark(message.id)
            return _Outcome.CHANGED
        request = link.requests.of_data(message.id)
        if request is None or request.data_end_received:
            is_theirs = message.id % 2 != link.parity
            if is_theirs and (request is None or request.cancel_sent):
                return _Outcome.WAIT
            raise CurrentViolated(f"there is no request {message.id} whose data could end")
        request.data_end_received = True
        if request is self._current:
            self._current = None
        self._pieces.end(request)
        self._negotiation.free(request)
        return _Outcome.CHANGED

    # Payloads.

    def _begin_payload(self, request: Request, length: int, compressed_length: int | None) -> _Outcome:
        if compressed_length is not None:
            if not self._link.receive_window:
                raise CompressionViolated("compressed data came, and the window is 0")
            if compressed_length > 2 * length + COMPRESSED_SLACK_BYTES:
                raise CompressionViolated(f"{compressed_length} compressed bytes stand for {length}")
        if request.is_position_lost:
            self._body = self._pieces.unknown_payload(request, length, compressed_length)
        else:
            self._body = self._pieces.begin_payload(request, length, compressed_length)
        if compressed_length is not None and length > COMPRESSED_BYTES_MAX:
            raise LimitReached(f"one compressed message stands for {length} bytes")
        body = self._body
        return _changed(body is not None and (length > 0 or body.size == request.incoming.offset))

    def _read_body(self, body: IncomingPayload) -> bool:
        """Take the available bytes of a payload. Returns whether there may be more to read."""
        wanted = min(body.left, _MOVED_BYTES)
        chunk = bytes(memoryview(self._buffer)[self._at : self._at + wanted])
        self._at += len(chunk)
        if chunk or not body.left:
            if body.is_compressed:
                if self._decompressor is None:
                    self._decompressor = Decompressor(self._link.receive_window)
                try:
                    for plain in body.decompress(self._decompressor, chunk):
                        self._plain_left -= len(plain)
                        self._keep(body, plain)
                except LzfooError as error:
                    raise CompressionViolated(str(error)) from None
            else:
                self._keep(body, body.raw(chunk))
        if body.left:
            return False if not chunk else self._at < len(self._buffer)
        self._body = None
        self._pieces.moved(body)
        return True

    def _decompress(self, compressed: bytes, length: int) -> bytes:
        if self._decompressor is None:
            self._decompressor = Decompressor(self._link.receive_window)
        try:
            plain = b"".join(self._decompressor.feed(compressed, length))
            self._decompressor.end()
        except LzfooError as error:
            raise CompressionViolated(str(error)) from None
        self._plain_left -= length
        if len(plain) != length:
            raise CompressionViolated(f"{length - len(plain)} bytes less come out than were announced")
        return plain

    @staticmethod
    def _keep(body: IncomingPayload, plain: bytes) -> None:
        if plain and body.size is not None:
            cursor = body.request.incoming
            offset = cursor.offset
            body.keep(offset, plain)
            cursor.move(cursor.piece, offset + len(plain))
