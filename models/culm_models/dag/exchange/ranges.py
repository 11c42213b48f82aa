"""Which chunks of a shard are here (R27): a bit each, so that any order of them takes a few bytes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from culm_models.dag.wire.messages import CHUNK_SIZE

Range: TypeAlias = tuple[int, int]
"""Offset and length, in bytes."""


def chunk_count(size: int) -> int:
    """How many chunks a shard of this size has."""
    return -(-size // CHUNK_SIZE)


def chunk_length(size: int, offset: int) -> int:
    """The length of the chunk at an offset."""
    return min(CHUNK_SIZE, size - offset)


def chunk_bit(offset: int) -> int:
    """The bit of the chunk at an offset."""
    return 1 << (offset // CHUNK_SIZE)


def all_chunks(size: int) -> int:
    """The bits of a whole shard."""
    return (1 << chunk_count(size)) - 1


def ranges_of(bits: int, size: int) -> tuple[Range, ...]:
    """The runs of chunks that are set, ascending, as bytes of a shard of this size."""
    found: list[Range] = []
    start = None
    for chunk in range(chunk_count(size) + 1):
        if bits >> chunk & 1:
            start = chunk if start is None else start
        elif start is not None:
            offset = start * CHUNK_SIZE
            found.append((offset, min(chunk * CHUNK_SIZE, size) - offset))
            start = None
    return tuple(found)


def bits_of(ranges: Iterable[Range], size: int) -> int | None:
    """The chunks of ranges; None unless each begins at a chunk and ends at a chunk or with the shard."""
    bits = 0
    for offset, length in ranges:
        end = offset + length
        if offset % CHUNK_SIZE or length < 1 or end > size or (end % CHUNK_SIZE and end != size):
            return None
        first, last = offset // CHUNK_SIZE, chunk_count(end)
        bits |= (1 << last) - (1 << first)
    return bits
