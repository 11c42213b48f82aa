"""bymux: several streams over one ordered channel, each with its own backpressure (R60). Usable alone.

Frames:

    bits 1-3  type: 0 credit, 1 write, 2 ping, 3 pong, 4 close, 5 stop read
    bit 4     a global frame, about no stream
    bits 5-6  width of the stream's id: 1, 2, 4 or 8 bytes, most significant first
    bits 7-8  width of the amount; of a global write, that of the id of the stream it creates

The header is followed by the id, the amount (credit and write alone), and the bytes of a write.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from culm_models.errors import ModelError


class BymuxError(ModelError, code="bymux"):
    """The base of all that the other end can break."""


class TypeUnknown(BymuxError, code="bymux.type"):
    """A frame of a type that there is not."""


class StreamUnknown(BymuxError, code="bymux.stream"):
    """A frame for a stream that there is not, one that would create a stream, or another global one."""


class CreditExceeded(BymuxError, code="bymux.credit"):
    """More bytes than there was credit for, or more credit than there can be."""


class StreamClosed(BymuxError, code="bymux.closed"):
    """A frame that closes a stream, or stops reading it: streams here end with the connection."""


class FrameFlood(BymuxError, code="bymux.flood"):
    """More frames that carry nothing, such as pings, than one principal may send."""


class ConsumedTooMuch(ModelError, code="bymux.consumed"):
    """This end's own caller says that it consumed more bytes than came."""


class FrameType(IntEnum):
    """The first three bits."""

    CREDIT = 0
    WRITE = 1
    PING = 2
    PONG = 3
    CLOSE = 4
    STOP_READ = 5


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame. `stream` None: global. `amount`: the credit, the bytes of a write that follow, or the id of
    the stream that a global write creates.
    """

    type: FrameType
    stream: int | None = None
    amount: int | None = None


_GLOBAL: Final = 0x10
_WITH_AMOUNT: Final = (FrameType.CREDIT, FrameType.WRITE)


def encode_frame(frame: Frame) -> bytes:
    """The bytes of a frame, numbers in the least width; of a write, what comes before its bytes."""
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
    """The frame at `offset` and where it ends (a write's bytes begin there); None where bytes are missing.

    Raises `TypeUnknown`.
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
    """The code of the least width for a number, and its bytes."""
    width = 0 if value < 1 << 8 else 1 if value < 1 << 16 else 2 if value < 1 << 32 else 3
    return width, value.to_bytes(1 << width, "big")


CONTROL: Final = 0
DATA: Final = 1
DEFAULT_WINDOW: Final = 262_144
MAX_WRITE_BYTES: Final = 16 * 1024
_INFINITE: Final = 2**64 - 1


@dataclass(slots=True)
class _Stream:
    """`credit`: bytes that may still go out; `granted`: bytes that may still come; None: any number.

    `unconsumed`: bytes that came and that the owner is not done with; `consumed`: not granted again yet.
    """

    credit: int | None
    granted: int | None
    unconsumed: int = 0
    consumed: int = 0


class Endpoint:
    """Bytes of the channel go in and out; `receive` gives what came on each stream, in order.

    Stream 0, control, has infinite credit either way; stream 1, data, has what the ends grant. No stream is
    created or closed. What is written waits here until credit allows it, so a caller asks `room` before it
    writes data; what comes is handed on at once, bounded by the credit that this end gave. `consumed` gives
    it back.
    """

    def __init__(self, window: int = DEFAULT_WINDOW) -> None:
        granted = window if window < _INFINITE else None
        self._streams = {CONTROL: _Stream(None, None), DATA: _Stream(0, granted)}
        self._waiting: dict[int, deque[bytes]] = {CONTROL: deque(), DATA: deque()}
        self._out = bytearray()
        self._in = bytearray()
        self.dropped: BymuxError | None = None
        """Why the connection is over."""
        self.is_left = False
        """Whether `receive` took as many frames as allowed, and bytes are left that it has not looked at."""
        self.frames = 0
        """Frames taken so far."""
        self.empty_frames = 0
        """Of them: pings, pongs, and writes of no bytes."""
        self._write: int | None = None
        self._write_left = 0
        if window:
            self._out += encode_frame(Frame(FrameType.CREDIT, DATA, window))

    def write(self, stream: int, data: bytes) -> None:
        """Send bytes on a stream, as soon as credit allows it; control goes before data."""
        if stream not in self._streams:
            raise StreamUnknown(f"there is no stream {stream}")
        if data:
            self._waiting[stream].append(data)
        self._flush()

    def take(self) -> bytes:
        """Bytes for the channel."""
        taken = bytes(self._out)
        self._out.clear()
        return taken

    @property
    def room(self) -> int:
        """How many bytes of data would go out at once: what credit is left beyond what waits."""
        credit = self._streams[DATA].credit
        waiting = sum(len(data) for data in self._waiting[DATA])
        return max(0, (_INFINITE if credit is None else credit) - waiting)

    def consumed(self, stream: int, amount: int) -> None:
        """The owner is done with bytes that came: they are granted again, when that is worth a frame."""
        state = self._streams.get(stream)
        if state is None:
            raise StreamUnknown(f"there is no stream {stream}")
        if amount > state.unconsumed:
            raise ConsumedTooMuch(f"{amount} bytes are said to be consumed, {state.unconsumed} came")
        state.unconsumed -= amount
        if state.granted is None or not amount:
            return
        state.consumed += amount
        if state.consumed >= state.granted:
            self._out += encode_frame(Frame(FrameType.CREDIT, stream, state.consumed))
            state.granted += state.consumed
            state.consumed = 0

    def receive(self, data: bytes, max_frames: int | None = None) -> list[tuple[int, bytes]]:
        """Take bytes of the channel: what came on which stream, up to what breaks a rule (`dropped`).

        Returns after `max_frames` frames, if it is set; `is_left` says whether to call again with no bytes.
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
                found = decode_frame(self._in, at)
                if found is None:
                    break
                frame, at = found
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
