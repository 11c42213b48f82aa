"""Frames: a length and a message; cut out of a stream that comes in pieces cut anywhere (reference 6)."""

from __future__ import annotations

from culm_models.dag.blocks.varint import VARINT_BYTES_MAX, read_varint, write_varint
from culm_models.dag.errors import DagError, DagFrameTooLarge
from culm_models.dag.wire.codec import decode_message, encode_message
from culm_models.dag.wire.messages import FRAME_MAX, DagMessage


def frame_of(message: DagMessage, max_frame: int = FRAME_MAX) -> bytes:
    """A message as it goes out to an end that takes frames of this size."""
    data = encode_message(message)
    if len(data) > max_frame:
        raise DagFrameTooLarge(f"a frame over {max_frame} bytes")
    return write_varint(len(data)) + data


class FrameReader:
    """Messages out of a stream. A fault ends it; what was whole before is still handed out.

    What it answers does not depend on where the pieces were cut, and it holds one unfinished frame at most.
    """

    __slots__ = ("_buffer", "_error", "_max_frame", "_needed", "used")

    def __init__(self, max_frame: int = FRAME_MAX) -> None:
        self._max_frame = max_frame
        self._buffer = bytearray()
        # How many bytes the next step wants.
        self._needed = 1
        self._error: DagError | None = None
        self.used = 0
        """How many bytes whole frames took."""

    def feed(self, data: bytes) -> list[DagMessage]:
        """The messages that are whole now. Raises the fault that ended the stream."""
        if self._error is not None:
            raise self._error
        self._buffer += data
        found: list[DagMessage] = []
        if len(self._buffer) < self._needed:
            return found
        at = 0
        try:
            while (frame := self._frame(at)) is not None:
                start, end = frame
                found.append(decode_message(bytes(self._buffer[start:end])))
                self.used += end - at
                at = end
        except DagError as error:
            self._error = error
            self._buffer = bytearray()
            if not found:
                raise
            return found
        del self._buffer[:at]
        return found

    def _frame(self, at: int) -> tuple[int, int] | None:
        """Where the frame at `at` begins and ends, when it is whole."""
        head = bytes(self._buffer[at : at + VARINT_BYTES_MAX])
        self._needed = 1
        if len(head) < VARINT_BYTES_MAX and all(byte >= 0x80 for byte in head):
            self._needed = len(head) + 1
            return None
        size, start = read_varint(head, 0)
        if size > self._max_frame:
            raise DagFrameTooLarge(f"a frame over {self._max_frame} bytes")
        end = at + start + size
        if end > len(self._buffer):
            self._needed = start + size
            return None
        return at + start, end
