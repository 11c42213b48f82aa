"""Decompression of LZFoo as bytes come, with a window and exact lengths (reference 1.6, R56).

Twenty bytes may stand for 2**63: what comes out is handed over in pieces, and never more than was announced.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from culm_models.lzfoo.elements import COPY, INLINE_LENGTHS, OFFSET_OF_TWO, VARU64_INLINE, read_element
from culm_models.lzfoo.errors import LzfooLength, LzfooOffset, LzfooTruncated

PIECE_BYTES: Final = 262_144
"""A piece exceeds this by no more than as many bytes again, and what was fed."""
OUTPUT_MAX: Final = 67_108_864
"""No more comes out of `decompress`, whatever was announced: who expects more takes it in pieces."""
_LONG_COPY: Final = COPY | INLINE_LENGTHS
_COMMON_COPY_BYTES: Final = 4
"""What the longest copy of the common kind takes."""
_COMMON_RUN_BYTES: Final = 4_096
"""Copies in so many bytes stand for less than a piece."""


def decompress(data: bytes, *, window: int, history: bytes = b"", length: int | None = None) -> bytes:
    """What whole elements stand for: `length` bytes if it is given. Raises `LzfooError`."""
    decompressor = Decompressor(window, history)
    most = OUTPUT_MAX if length is None else min(length, OUTPUT_MAX)
    output = b"".join(decompressor.feed(data, most))
    decompressor.end()
    if length is not None and len(output) != length:
        raise LzfooLength(f"{len(output)} bytes come out, not {length}")
    return output


class Decompressor:
    """One direction of a connection; `history` is what came out before, as far as the window needs it.

    It holds the last `window` bytes that came out, and no more than as many again and two pieces.
    """

    __slots__ = ("_copy_left", "_literal_left", "_offset", "_output", "_pending", "_window")

    def __init__(self, window: int, history: bytes = b"") -> None:
        self._window = window
        self._output = bytearray(history[-window:] if window else b"")
        self._pending = b""
        self._literal_left = 0
        self._copy_left = 0
        self._offset = 0

    def feed(self, chunk: bytes, most: int) -> Iterator[bytes]:
        """What comes out of further bytes, in pieces; all of them must be taken before the next bytes.

        Raises `LzfooOffset`, and `LzfooLength` as soon as it is certain that more than `most` bytes come out.
        """
        data = self._pending + chunk
        self._pending = b""
        output, at, begin = self._output, 0, len(self._output)
        while True:
            if self._literal_left:
                if at >= len(data):
                    break
                end = min(at + self._literal_left, len(data))
                output += data[at:end]
                self._literal_left -= end - at
                at = end
            elif self._copy_left:
                self._copy(min(self._copy_left, max(begin + PIECE_BYTES - len(output), 1)))
            else:
                at = self._read_common(data, at)
                left = begin + most - len(output)
                if left >= 0 and at < len(data):
                    element = read_element(data, at)
                    if element is None:
                        self._pending = data[at:]
                        break
                    at = element[0]
                    left -= self._begin(*element[1:])
                if left < 0:
                    raise LzfooLength(f"more bytes come out than the {most} that were left")
                if at >= len(data) and not self._copy_left:
                    break
            if len(output) - begin >= PIECE_BYTES:
                most -= len(output) - begin
                yield bytes(output[begin:])
                begin = self._forget()
        if len(output) > begin:
            yield bytes(output[begin:])
            self._forget()

    def end(self) -> None:
        """No bytes follow. Raises `LzfooTruncated` within an element."""
        if self._pending or self._literal_left:
            raise LzfooTruncated("the bytes end within an element")

    def _read_common(self, data: bytes, at: int) -> int:
        """Take elements of the common kinds; returns where one begins that is not, or that is not all there.

        Common are lengths below 120, and offsets of one or three bytes within what is remembered already. All
        else, and every error, is left to who takes one element with all care: this loop decides the speed.
        """
        output = self._output
        reach = min(self._window, len(output))
        last = min(len(data) - _COMMON_COPY_BYTES, at + _COMMON_RUN_BYTES)
        while at <= last:
            tag = data[at]
            if tag < INLINE_LENGTHS:
                body = at + 1
                behind = body + tag
                if behind > last:
                    break
                output += data[body:behind]
                at = behind
                # A copy follows a literal nearly always.
                tag = data[at]
            if not COPY <= tag < _LONG_COPY:
                if tag < INLINE_LENGTHS:
                    continue
                break
            offset = data[at + 1]
            if offset == OFFSET_OF_TWO:
                offset = data[at + 2] << 8 | data[at + 3]
                behind = at + 4
            elif offset < VARU64_INLINE:
                behind = at + 2
            else:
                break
            if not 0 < offset <= reach:
                break
            source = len(output) - offset
            length = tag - COPY
            if length <= offset:
                output += output[source : source + length]
            else:
                output += (output[source:] * (length // offset + 1))[:length]
            at = behind
        return at

    def _begin(self, length: int, offset: int | None) -> int:
        """An element begins; returns its length."""
        if offset is None:
            self._literal_left = length
        elif not 0 < offset <= min(self._window, len(self._output)):
            raise LzfooOffset(f"a copy from {offset} bytes back is outside of the window or the history")
        else:
            self._copy_left, self._offset = length, offset
        return length

    def _copy(self, length: int) -> None:
        """So much of the copy at hand; what is copied may itself be copied from (overlap)."""
        output, offset = self._output, self._offset
        source = len(output) - offset
        if length <= offset:
            output += output[source : source + length]
        else:
            output += (output[source:] * (length // offset + 1))[:length]
        self._copy_left -= length

    def _forget(self) -> int:
        """Drop what no copy can reach, now and then; returns where the output of the future begins."""
        output = self._output
        if len(output) > 2 * self._window + PIECE_BYTES:
            del output[: len(output) - self._window]
        return len(output)
