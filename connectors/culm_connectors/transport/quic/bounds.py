"""Bounds on what one remote can cost below the streams, inside the QUIC library (aioquic, pinned exactly).

| what the library leaves open | here |
|---|---|
| gaps in a stream and in CRYPTO (RFC 9000 section 21.6) | a bounded number, else the connection ends |
| CRYPTO up to 512 KiB ahead, and TLS messages of any length | at most 16 KiB of an incomplete message |
| any number of frames in a packet, in packets without new data | counted, with a budget |
| closes sent to an address that is not proven (section 8.1) | at most three times the bytes from it |
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import Any

from aioquic._buffer import Buffer
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection, QuicConnectionError, QuicReceiveContext
from aioquic.quic.packet import QuicErrorCode, QuicFrameType
from aioquic.quic.stream import QuicStream

from culm_connectors.rate_limit import TokenBucket
from culm_connectors.transport.codes import CloseCode
from culm_connectors.transport.settings import MIN_DATAGRAM_BYTES, TransportSettings

_MAX_CRYPTO_BYTES = 16 * 1_024
_MAX_CRYPTO_RANGES = 32
_MIN_STREAM_RANGES = 64
_MAX_FRAMES = 256
_FREE_FRAMES = 8

_CARRYING = frozenset(
    [QuicFrameType.CRYPTO, *range(QuicFrameType.STREAM_BASE, QuicFrameType.STREAM_BASE + 8)]
)

_FRAME_HANDLERS = "_QuicConnection__frame_handlers"

FrameHandler = Callable[[QuicReceiveContext, int, Buffer], None]


class ReceivedRanges:
    """The ranges of a stream that were received out of order, with a bound on the gaps between them.

    The library keeps them in a list that every frame searches from its start, and a remote can make that list
    as long as it likes. This class is the part of the library's `RangeSet` that a receiver of a stream uses,
    for at most `most` ranges.

    A further range ends the connection with the QUIC error `error_code`. `on_new_bytes` is called for bytes
    that were not received before.
    """

    def __init__(
        self, max_ranges: int, *, error_code: int, frame_type: int, on_new_bytes: Callable[[], None]
    ) -> None:
        self._max_ranges = max_ranges
        self._on_new_bytes = on_new_bytes
        self._error_code = error_code
        self._frame_type = frame_type
        # Ascending and apart: range number i holds the offsets from _starts[i] up to _stops[i].
        self._starts: list[int] = []
        self._stops: list[int] = []

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, index: int) -> range:
        return range(self._starts[index], self._stops[index])

    def add(self, start: int, stop: int) -> None:
        """Record the received bytes from offset `start` up to `stop`. Error: `QuicConnectionError`."""
        first = bisect_left(self._stops, start)
        end = bisect_right(self._starts, stop)
        if first < end:
            if self._starts[first] <= start and stop <= self._stops[first]:
                return
            start = min(start, self._starts[first])
            stop = max(stop, self._stops[end - 1])
        elif len(self._starts) >= self._max_ranges:
            raise QuicConnectionError(
                error_code=self._error_code,
                frame_type=self._frame_type,
                reason_phrase="too many gaps in what was received",
            )
        self._on_new_bytes()
        self._starts[first:end] = [start]
        self._stops[first:end] = [stop]

    def shift(self) -> range:
        """Remove and return the first range."""
        return range(self._starts.pop(0), self._stops.pop(0))


class BoundedQuicConnection(QuicConnection):
    """An aioquic connection on which a remote's packets cost a bounded amount of memory and time."""

    def __init__(
        self,
        settings: TransportSettings,
        *,
        configuration: QuicConfiguration,
        original_destination_connection_id: bytes | None = None,
        retry_source_connection_id: bytes | None = None,
    ) -> None:
        super().__init__(
            configuration=configuration,
            original_destination_connection_id=original_destination_connection_id,
            retry_source_connection_id=retry_source_connection_id,
        )
        # Datagrams of the smallest size, every second one lost, leave no more ranges than this in a window.
        self._max_stream_ranges = max(
            _MIN_STREAM_RANGES, settings.stream_receive_window_bytes // (2 * MIN_DATAGRAM_BYTES) + 1
        )
        self._frames = _CountedFrames(vars(self)[_FRAME_HANDLERS])
        vars(self)[_FRAME_HANDLERS] = self._frames
        self._brought_bytes = False
        rate = settings.idle_frames_per_second
        self._idle_frames = TokenBucket(rate, max(1, rate))

    # --- what came out of order

    def _initialize(self, peer_cid: bytes) -> None:
        super()._initialize(peer_cid)
        for stream in self._crypto_streams.values():
            self._bound_ranges(
                stream, _MAX_CRYPTO_RANGES, QuicErrorCode.CRYPTO_BUFFER_EXCEEDED, QuicFrameType.CRYPTO
            )

    def _get_or_create_stream(self, frame_type: int, stream_id: int) -> QuicStream:
        stream = super()._get_or_create_stream(frame_type, stream_id)
        if not isinstance(stream.receiver._ranges, ReceivedRanges):
            self._bound_ranges(
                stream, self._max_stream_ranges, QuicErrorCode.PROTOCOL_VIOLATION, QuicFrameType.STREAM_BASE
            )
        return stream

    def _handle_crypto_frame(self, context: QuicReceiveContext, frame_type: int, buf: Buffer) -> None:
        start = buf.tell()
        end_offset = buf.pull_uint_var() + buf.pull_uint_var()
        buf.seek(start)
        # TLS has all data received in order and waits for the rest of a message.
        done = self._crypto_streams[context.epoch].receiver.starting_offset() - len(self.tls._receive_buffer)
        if end_offset - done > _MAX_CRYPTO_BYTES:
            raise QuicConnectionError(
                error_code=QuicErrorCode.CRYPTO_BUFFER_EXCEEDED,
                frame_type=frame_type,
                reason_phrase="too much CRYPTO before its message is whole",
            )
        super()._handle_crypto_frame(context, frame_type, buf)

    def _bound_ranges(self, stream: QuicStream, max_ranges: int, error_code: int, frame_type: int) -> None:
        ranges = ReceivedRanges(
            max_ranges, error_code=error_code, frame_type=frame_type, on_new_bytes=self._note_new_bytes
        )
        stream.receiver._ranges = ranges  # type: ignore[assignment]  # it has all that a receiver uses

    # --- frames

    def _note_new_bytes(self) -> None:
        self._brought_bytes = True

    def _payload_received(
        self, context: QuicReceiveContext, plain: bytes, crypto_frame_required: bool = False
    ) -> tuple[bool, bool]:
        self._frames.count = 0
        self._brought_bytes = False
        before = self._local_max_data.used, self._loss.bytes_in_flight
        result = super()._payload_received(context, plain, crypto_frame_required)
        frames = self._frames.count
        if self._brought_bytes or (self._local_max_data.used, self._loss.bytes_in_flight) != before:
            idle = frames - _FREE_FRAMES
        else:
            idle = max(frames, _FREE_FRAMES)
        if idle > 0 and not self._idle_frames.take(idle, context.time):
            self.close(CloseCode.OVERLOADED, reason_phrase="too many frames without data")
        return result

    def _handle_padding_frame(self, context: QuicReceiveContext, frame_type: int, buf: Buffer) -> None:
        # The library goes over padding byte by byte, which takes milliseconds in a large datagram.
        position = buf.tell()
        rest = buf.data_slice(position, buf.capacity)
        buf.seek(position + len(rest) - len(rest.lstrip(b"\0")))

    # --- closes

    def datagrams_to_send(self, now: float) -> list[tuple[bytes, Any]]:
        """Return the datagrams to send; a close only if the address may receive that many bytes."""
        closes = self._close_pending
        datagrams = super().datagrams_to_send(now)
        if closes and not self._network_paths[0].can_send(0):
            self._network_paths[0].bytes_sent -= sum(len(data) for data, _ in datagrams)
            return []
        return datagrams

    def count_late_datagram(self, size: int) -> None:
        """Count a datagram of `size` bytes that came after the end: it is not read, but may be answered."""
        if self._network_paths:
            self._network_paths[0].bytes_received += size

    def allowed_again(self, datagrams: list[tuple[bytes, Any]]) -> list[tuple[bytes, Any]]:
        """Return those datagrams of a close that may be sent to the remote's address once more."""
        path = self._network_paths[0]
        allowed = []
        for data, address in datagrams:
            if path.can_send(len(data)):
                path.bytes_sent += len(data)
                allowed.append((data, address))
        return allowed


class _CountedFrames(dict[int, tuple[FrameHandler, Any]]):
    """The library's table of frame handlers, in which it looks up every frame of a packet."""

    count = 0
    """Frames of this packet so far."""

    def __getitem__(self, frame_type: int) -> tuple[FrameHandler, Any]:
        self.count += 1
        if self.count > _MAX_FRAMES:
            raise QuicConnectionError(
                error_code=QuicErrorCode.PROTOCOL_VIOLATION,
                frame_type=frame_type,
                reason_phrase="too many frames in a packet",
            )
        return super().__getitem__(frame_type)
