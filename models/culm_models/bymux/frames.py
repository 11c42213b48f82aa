"""The bytes of bymux frames.

    bits 1-3  type: 0 credit, 1 write, 2 ping, 3 pong, 4 close, 5 stop read
    bit 4     a global frame, about no stream
    bits 5-6  width of the stream's id: 1, 2, 4 or 8 bytes, most significant first
    bits 7-8  width of the amount; of a global write, that of the id of the stream it creates

The header is followed by the id, the amount (credit and write alone), and the bytes of a write.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from culm_models.bymux.errors import TypeUnknown


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
