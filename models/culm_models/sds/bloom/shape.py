"""How many bits and hash functions a bloom filter has; both deployed implementations size theirs alike."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from culm_models.sds.wire.errors import BloomShapeError

_WORD_BITS = 64
_MAX_BYTES = 16 * 2**20
"""JavaScript's peer computes positions in 32 bits with a sign; a filter this large is still far below."""


@dataclass(frozen=True, slots=True)
class BloomShape:
    """The measures of a filter: made for `capacity` ids with at most `error_rate` false positives.

    `hash_count` positions are set for each id among `bit_count` bits, which lie in `byte_count` bytes: whole
    64-bit words, one of them even where `bit_count` is a multiple of 64.
    """

    capacity: int
    error_rate: float
    hash_count: int
    bit_count: int
    byte_count: int

    @classmethod
    def sized(cls, capacity: int, error_rate: float) -> BloomShape:
        """The shape that every participant of a channel derives from the same two numbers.

        Raises BloomShapeError for numbers that give no filter, or one of more than 16 MiB.
        """
        return _sized(capacity, error_rate)


@lru_cache(maxsize=64)
def _sized(capacity: int, error_rate: float) -> BloomShape:
    if capacity < 1 or not 0.0 < error_rate < 1.0:
        raise BloomShapeError(f"no filter for {capacity} ids at an error rate of {error_rate}")
    bits_per_id = math.ceil(-math.log(error_rate) / math.log(2) ** 2)
    bit_count = capacity * bits_per_id
    byte_count = words_size(bit_count)
    if byte_count > _MAX_BYTES:
        raise BloomShapeError(f"a filter for {capacity} ids at {error_rate} would take {byte_count} bytes")
    hash_count = math.floor(math.log(2) * bits_per_id + 0.5)
    return BloomShape(capacity, error_rate, hash_count, bit_count, byte_count)


def words_size(bit_count: int) -> int:
    """Bytes of the 64-bit words that hold so many bits, with the one word more that all have."""
    return _WORD_BITS // 8 * (1 + bit_count // _WORD_BITS)
