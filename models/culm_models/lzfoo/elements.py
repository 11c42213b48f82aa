"""How an element is written: a tag with its length, then literal bytes or a copy's offset (reference 1.6).

The tag's highest bit tells a copy from a literal. Its other bits are the length below 120; from there on they
say how many bytes of length follow, 1 to 8, big-endian. An offset is a VarU64.
"""

from __future__ import annotations

from typing import Final

from culm_models import varu64

COPY: Final = 0x80
"""The bit of a tag that makes it a copy's."""
INLINE_LENGTHS: Final = 120
"""Shorter lengths stand in the tag."""
VARU64_INLINE: Final = 248
"""Smaller offsets are one byte."""
OFFSET_OF_TWO: Final = 249
"""The first byte of an offset of 256 to 65,535: two bytes follow."""


def literals(data: bytes) -> bytes:
    """Bytes as a literal alone: the plainest LZFoo that stands for them."""
    return _head(0, len(data)) + data if data else b""


def copy(length: int, offset: int) -> bytes:
    """A copy of `length` bytes from `offset` bytes back."""
    return _head(COPY, length) + varu64.encode(offset)


def _head(kind: int, length: int) -> bytes:
    if length < INLINE_LENGTHS:
        return bytes((kind | length,))
    size = (length.bit_length() + 7) // 8
    return bytes((kind | INLINE_LENGTHS - 1 + size,)) + length.to_bytes(size, "big")


def read_element(data: bytes, at: int) -> tuple[int, int, int | None] | None:
    """The element whose tag stands at `at`; None where bytes are missing.

    Returns where its head ends, its length, and a copy's offset (None: a literal, whose bytes follow).
    """
    tag = data[at]
    at += 1
    length = tag & ~COPY
    if length >= INLINE_LENGTHS:
        end = at + length - INLINE_LENGTHS + 1
        if end > len(data):
            return None
        length, at = int.from_bytes(data[at:end], "big"), end
    if not tag & COPY:
        return at, length, None
    try:
        offset, size = varu64.decode(data, at, canonical=False)
    except varu64.VarU64TruncatedError:
        return None
    return at + size, length, offset
