"""Chunks of a shard as bits of an integer (R27), so that any subset of them takes a few bytes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from culm_models.dag.wire.messages import CHUNK_SIZE

Range: TypeAlias = tuple[int, int]
"""Offset and length, in bytes."""


def chunk_count(size: int) -> int:
    """Return the number of chunks in a shard of `size` bytes."""
    return -(-size // CHUNK_SIZE)


def chunk_length(size: int, offset: int) -> int:
    """Return the length of the chunk at an offset, in bytes."""
    return min(CHUNK_SIZE, size - offset)


def chunk_bit(offset: int) -> int:
    """Return the bit of the chunk at an offset."""
    return 1 << (offset // CHUNK_SIZE)


def all_chunks(size: int) -> int:
    """Return the bits of all chunks of a shard."""
    return (1 << chunk_count(size)) - 1


def ranges_of(bits: int, size: int) -> tuple[Range, ...]:
    """Convert the bits of chunks to ascending byte ranges in a shard of `size` bytes."""
    ranges: list[Range] = []
    start = None
    for chunk in range(chunk_count(size) + 1):
        if bits >> chunk & 1:
            start = chunk if start is None else start
        elif start is not None:
            offset = start * CHUNK_SIZE
            ranges.append((offset, min(chunk * CHUNK_SIZE, size) - offset))
            start = None
    return tuple(ranges)


def bits_of(ranges: Iterable[Range], size: int) -> int | None:
    """Convert byte ranges to the bits of chunks.

    Returns None unless each range begins at a chunk and ends at the end of a chunk or of the shard.
    """
    bits = 0
    for offset, length in ranges:
        end = offset + length
        if offset % CHUNK_SIZE or length < 1 or end > size or (end % CHUNK_SIZE and end != size):
            return None
        first, last = offset // CHUNK_SIZE, chunk_count(end)
        bits |= (1 << last) - (1 << first)
    return bits
