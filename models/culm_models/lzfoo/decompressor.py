"""Decompression of LZFoo as bytes come, with a window and exact lengths (reference 1.6, R56)."""

from __future__ import annotations

from typing import ClassVar, Final

from culm_models.errors import ModelError

_COPY: Final = 0x80
_INLINE_LENGTHS: Final = 120
_VARU64_INLINE: Final = 248


class LzfooError(ModelError):
    """Bytes that are no LZFoo, or not the one that was announced."""

    code: ClassVar[str] = "lzfoo"


class LzfooOffset(LzfooError):
    """A copy from before the beginning, from beyond the window, or from nowhere."""

    code: ClassVar[str] = "lzfoo.offset"


class LzfooTruncated(LzfooError):
    """The bytes end within an element."""

    code: ClassVar[str] = "lzfoo.truncated"


class LzfooLength(LzfooError):
    """The output is longer or shorter than announced."""

    code: ClassVar[str] = "lzfoo.length"


class Decompressor:
    """One direction of a connection; `history` is what came out before, as far as the window needs it."""

    __slots__ = ("_copied", "_history", "_literal_left", "_pending", "_window")

    def __init__(self, window: int, history: bytes = b"") -> None:
        self._window = window
        self._history = bytearray(history[-window:] if window else b"")
        self._pending = bytearray()
        self._literal_left = 0

    def feed(self, chunk: bytes, *, limit: int | None, is_last: bool) -> bytes:
        """What comes out of further bytes, at most `limit`; `is_last`: they end the message.

        Then exactly `limit` must come out, and no element may be cut off. Raises `LzfooError`.
        """
        self._pending += chunk
        data, at = self._pending, 0
        out = bytearray()
        history, window = self._history, self._window
        while at < len(data):
            if self._literal_left:
                taken = data[at : at + self._literal_left]
                if limit is not None and len(out) + len(taken) > limit:
                    raise LzfooLength(f"more than {limit} bytes come out")
                self._literal_left -= len(taken)
                at += len(taken)
                out += taken
                continue
            element = _element(data, at)
            if element is None:
                break
            at, length, offset = element
            if limit is not None and len(out) + length > limit:
                raise LzfooLength(f"more than {limit} bytes come out")
            if offset is None:
                self._literal_left = length
                continue
            if not offset or offset > min(window, len(history) + len(out)):
                raise LzfooOffset(f"a copy from {offset} bytes back is outside of the window or the history")
            _copy(history, out, offset, length)
        del self._pending[:at]
        if is_last:
            if self._pending or self._literal_left:
                raise LzfooTruncated("the bytes end within an element")
            if limit is not None and len(out) != limit:
                raise LzfooLength(f"{len(out)} bytes come out, not {limit}")
        history += out
        if len(history) > 2 * window + 65_536:
            del history[: len(history) - window]
        return bytes(out)


def _element(data: bytearray, at: int) -> tuple[int, int, int | None] | None:
    """Where the body begins, length, offset of a copy (None: a literal); None where bytes are missing."""
    tag = data[at]
    at += 1
    length = tag & 0x7F
    if length >= _INLINE_LENGTHS:
        size = length - _INLINE_LENGTHS + 1
        if at + size > len(data):
            return None
        length = int.from_bytes(data[at : at + size], "big")
        at += size
    if not tag & _COPY:
        return at, length, None
    if at >= len(data):
        return None
    offset = data[at]
    at += 1
    if offset >= _VARU64_INLINE:
        size = offset - _VARU64_INLINE + 1
        if at + size > len(data):
            return None
        offset = int.from_bytes(data[at : at + size], "big")
        at += size
    return at, length, offset


def _copy(history: bytearray, out: bytearray, offset: int, length: int) -> None:
    """Append `length` bytes from `offset` back; what is copied may itself be copied from (overlap)."""
    if offset > len(out):
        begin = len(history) + len(out) - offset
        source = bytes(history[begin : begin + min(length, offset - len(out))])
        out += source
        length -= len(source)
        if not length:
            return
    start = len(out) - offset
    pattern = bytes(out[start : start + min(offset, length)])
    whole, rest = divmod(length, len(pattern))
    out += pattern * whole + pattern[:rest]
