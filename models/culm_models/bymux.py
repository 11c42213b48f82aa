"""bymux: several streams over one ordered channel, each with its own backpressure (R60).

Frames:

    bits 1-3  type: 0 credit, 1 write, 2 ping, 3 pong, 4 close, 5 stop read
    bit 4     a global frame, which belongs to no stream
    bits 5-6  width of the stream's id: 1, 2, 4 or 8 bytes, most significant first
    bits 7-8  width of the amount; in a global write, that of the id of the stream that it creates

The header is followed by the id, the amount (credit and write only), and the bytes of a write. The module
does not depend on the rest of Bamboo Point-2-Point.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from culm_models.errors import ModelError


class BymuxError(ModelError, code="bymux"):
    """Base of all violations by the other end."""


class TypeUnknown(BymuxError, code="bymux.type"):
    """A frame of an unknown type."""


class StreamUnknown(BymuxError, code="bymux.stream"):
    """A frame for an unknown stream, or a global frame, such as one that creates a stream."""


class CreditExceeded(BymuxError, code="bymux.credit"):
    """More bytes than were granted, or a grant beyond the largest possible credit."""


class StreamClosed(BymuxError, code="bymux.closed"):
    """A frame that closes a stream or stops reading it. Streams end only with the connection."""


class FrameFlood(BymuxError, code="bymux.flood"):
    """More frames without content, such as pings, than a principal may send."""


class ConsumedTooMuch(ModelError, code="bymux.consumed"):
    """This end's own caller reported more bytes as consumed than were received."""


class FrameType(IntEnum):
    """The type of a frame: its first three bits."""

    CREDIT = 0
    WRITE = 1
    PING = 2
    PONG = 3
    CLOSE = 4
    STOP_READ = 5


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame. It is global if `stream` is None.

    `amount` is the credit, the number of bytes of a write, or the id of the stream that a global write
    creates.
    """

    type: FrameType
    stream: int | None = None
    amount: int | None = None


_GLOBAL: Final = 0x10
_WITH_AMOUNT: Final = (FrameType.CREDIT, FrameType.WRITE)


def encode_frame(frame: Frame) -> bytes:
    """Encode a frame, with numbers in their smallest width; for a write, the part before its bytes."""
    first = frame.type << 5 | (_GLOBAL if frame.stream is None else 0)
    numbers = b""
    if frame.stream is not None:
        width, numbers = _number(frame.stream)
        first |= width << 2
    if frame.type in _WITH_AMOUNT:
        width, amount = _number(frame.amount or 0)
        first |= width
        numbers += amount
    return bytes((first,)) + numbers


def decode_frame(data: bytes | bytearray | memoryview, offset: int = 0) -> tuple[Frame, int] | None:
    """Decode the frame at `offset`. Returns it with the offset of its end, or None if bytes are missing.

    The bytes of a write begin at the end of its frame. Raises `TypeUnknown`.
    """
    if offset >= len(data):
        return None
    first = data[offset]
    try:
        frame_type = FrameType(first >> 5)
    except ValueError:
        raise TypeUnknown(f"no bymux frame has the type {first >> 5}") from None
    widths = [] if first & _GLOBAL else [1 << (first >> 2 & 3)]
    if frame_type in _WITH_AMOUNT:
        widths.append(1 << (first & 3))
    offset += 1
    if offset + sum(widths) > len(data):
        return None
    numbers = []
    for width in widths:
        numbers.append(int.from_bytes(data[offset : offset + width], "big"))
        offset += width
    stream = None if first & _GLOBAL else numbers[0]
    return Frame(frame_type, stream, numbers[-1] if frame_type in _WITH_AMOUNT else None), offset


def _number(value: int) -> tuple[int, bytes]:
    """Return the code of the smallest width for a number, and its bytes."""
    width = 0 if value < 1 << 8 else 1 if value < 1 << 16 else 2 if value < 1 << 32 else 3
    return width, value.to_bytes(1 << width, "big")


CONTROL: Final = 0
DATA: Final = 1
DEFAULT_WINDOW: Final = 262_144
MAX_WRITE_BYTES: Final = 16 * 1024
_INFINITE: Final = 2**64 - 1


@dataclass(slots=True)
class _Stream:
    """State of a stream: `credit` bytes may still be sent, `granted` bytes received; None means unlimited.

    `unconsumed`: received bytes that the owner has not processed; `consumed`: processed, but not granted
    again yet.
    """

    credit: int | None
    granted: int | None
    unconsumed: int = 0
    consumed: int = 0


class Endpoint:
    """One end of a channel: multiplexes written bytes, and demultiplexes received ones, in order.

    Stream 0, control, has infinite credit in both directions; stream 1, data, has what the ends grant. No
    stream is created or closed. Written bytes wait here until credit allows them, so callers check `capacity`
    before they write data. Received bytes are returned immediately; they are bounded by the credit that this
    end has granted. The owner calls `consumed` after processing to grant it again.
    """

    def __init__(self, window: int = DEFAULT_WINDOW) -> None:
        granted = window if window < _INFINITE else None
        self._streams = {CONTROL: _Stream(None, None), DATA: _Stream(0, granted)}
        self._waiting: dict[int, deque[bytes]] = {CONTROL: deque(), DATA: deque()}
        self._out = bytearray()
        self._in = bytearray()
        self.dropped: BymuxError | None = None
        """The error that ended the connection, or None while it is open."""
        self.is_left = False
        """Whether `receive` stopped at its limit of frames with unread bytes left."""
        self.frames = 0
        """Number of frames received so far."""
        self.empty_frames = 0
        """Number of pings, pongs and empty writes among them."""
        self._write: int | None = None
        self._write_left = 0
        if window:
            self._out += encode_frame(Frame(FrameType.CREDIT, DATA, window))

    def write(self, stream: int, data: bytes) -> None:
        """Send bytes on a stream as soon as credit allows it. Control precedes data.

        Raises `StreamUnknown`.
        """
        if stream not in self._streams:
            raise StreamUnknown(f"there is no stream {stream}")
        if data:
            self._waiting[stream].append(data)
        self._flush()

    def take(self) -> bytes:
        """Take the bytes for the channel."""
        taken = bytes(self._out)
        self._out.clear()
        return taken

    @property
    def capacity(self) -> int:
        """Bytes of data that could be sent immediately: the credit minus the waiting bytes."""
        credit = self._streams[DATA].credit
        waiting = sum(len(data) for data in self._waiting[DATA])
        return max(0, (_INFINITE if credit is None else credit) - waiting)

    def consumed(self, stream: int, amount: int) -> None:
        """Report that the owner has processed received bytes, so that they can be granted again.

        A frame is sent only when enough bytes have accumulated. Raises `StreamUnknown` and `ConsumedTooMuch`.
        """
        state = self._streams.get(stream)
        if state is None:
            raise StreamUnknown(f"there is no stream {stream}")
        if amount > state.unconsumed:
            raise ConsumedTooMuch(f"{amount} bytes are reported as consumed, {state.unconsumed} came")
        state.unconsumed -= amount
        if state.granted is None or not amount:
            return
        state.consumed += amount
        if state.consumed >= state.granted:
            self._out += encode_frame(Frame(FrameType.CREDIT, stream, state.consumed))
            state.granted += state.consumed
            state.consumed = 0

    def receive(self, data: bytes, max_frames: int | None = None) -> list[tuple[int, bytes]]:
        """Receive bytes of the channel. Returns each stream's bytes, in order, up to a violation (`dropped`).

        Returns after `max_frames` frames, if it is set. If `is_left` is true then, call again with empty
        bytes.
        """
        if self.dropped is not None:
            return []
        self._in += data
        self.is_left = False
        last_frame = None if max_frames is None else self.frames + max_frames
        came: list[tuple[int, bytes]] = []
        at = 0
        try:
            while True:
                if self._write is not None:
                    chunk = bytes(self._in[at : at + self._write_left])
                    at += len(chunk)
                    self._write_left -= len(chunk)
                    if chunk:
                        self._streams[self._write].unconsumed += len(chunk)
                        came.append((self._write, chunk))
                    if self._write_left:
                        break
                    self._write = None
                if self.frames == last_frame:
                    self.is_left = at < len(self._in)
                    break
                decoded = decode_frame(self._in, at)
                if decoded is None:
                    break
                frame, at = decoded
                self._take_frame(frame)
        except BymuxError as error:
            self.dropped = error.with_traceback(None)
            return came
        del self._in[:at]
        self._flush()
        return came

    def _take_frame(self, frame: Frame) -> None:
        self.frames += 1
        if not frame.amount and frame.type is not FrameType.CREDIT:
            self.empty_frames += 1
        state = self._streams.get(frame.stream) if frame.stream is not None else None
        if frame.stream is None or state is None:
            raise StreamUnknown("a frame is global, or for a stream that there is not")
        amount = frame.amount or 0
        match frame.type:
            case FrameType.WRITE:
                if state.granted is not None:
                    if amount > state.granted:
                        raise CreditExceeded(f"{amount} bytes came, {state.granted} were granted")
                    state.granted -= amount
                self._write, self._write_left = frame.stream, amount
            case FrameType.CREDIT:
                self._take_credit(state, amount)
            case FrameType.PING:
                self._out += encode_frame(Frame(FrameType.PONG, frame.stream))
            case FrameType.CLOSE | FrameType.STOP_READ:
                raise StreamClosed(f"stream {frame.stream} cannot be closed alone")

    @staticmethod
    def _take_credit(state: _Stream, amount: int) -> None:
        if state.credit is None:
            if amount:
                raise CreditExceeded("credit came for a stream that has an infinite amount")
            return
        total = state.credit + amount
        if total > _INFINITE:
            raise CreditExceeded("more credit came than there can be")
        state.credit = None if not amount or total == _INFINITE else total

    def _flush(self) -> None:
        for number in (CONTROL, DATA):
            state, waiting = self._streams[number], self._waiting[number]
            while waiting and (state.credit is None or state.credit):
                data = waiting.popleft()
                size = min(len(data), MAX_WRITE_BYTES, len(data) if state.credit is None else state.credit)
                if size < len(data):
                    waiting.appendleft(data[size:])
                if state.credit is not None:
                    state.credit -= size
                self._out += encode_frame(Frame(FrameType.WRITE, number, size))
                self._out += data[:size]
