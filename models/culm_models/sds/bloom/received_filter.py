"""A filter as another participant sent it: asked straight on its bytes, believed only when it can be true."""

from __future__ import annotations

from array import array

from culm_models.sds.bloom.build import absent_of, covers, set_bit_count
from culm_models.sds.bloom.layout import LAYOUTS, BloomShape, HashPair, LayoutName, unwrapped

_FULL_PERCENT = 60
"""A filter at its designed capacity has half of its bits set, and nim's before its first rollover 55 %."""


class ReceivedFilter:
    """The bits of a received filter, and the numbers to read them with."""

    __slots__ = ("_bit_count", "_bits", "_flip", "_full", "_hash_count")

    def __init__(self, bits: bytes, flip: int, hash_count: int, bit_count: int) -> None:
        self._bits = bits
        self._flip = flip
        self._hash_count = hash_count
        self._bit_count = bit_count
        self._full: bool | None = None

    @classmethod
    def parse(
        cls, layout: LayoutName, value: bytes, capacity: int, error_rate: float
    ) -> ReceivedFilter | None:
        """The filter in a message's field; None for bytes of another length or shape, which say nothing.

        `capacity` and `error_rate` are the channel's. In profile nim the container tells the measures itself.
        """
        kind = LAYOUTS[layout]
        if kind.contained:
            found = unwrapped(value)
            if found is None:
                return None
            bits, hash_count, bit_count = found
            return cls(bits, kind.byte_flip, hash_count, bit_count)
        shape = BloomShape.sized(capacity, error_rate)
        if len(value) != shape.byte_count:
            return None
        return cls(value, kind.byte_flip, shape.hash_count, shape.bit_count)

    @property
    def is_evidence(self) -> bool:
        """Whether a hit means anything: at most 60 % of the bits are set. A full filter affirms all."""
        if self._full is None:
            self._full = set_bit_count(self._bits) * 100 > self._bit_count * _FULL_PERCENT
        return not self._full

    def covers(self, bits: bytes | bytearray, shape: BloomShape) -> bool:
        """Whether every bit is set here that is set in `bits`, a filter of that shape and this layout."""
        if (len(bits), shape.hash_count, shape.bit_count) != (
            len(self._bits),
            self._hash_count,
            self._bit_count,
        ):
            return False
        return covers(self._bits, bits)

    def absent(self, pairs: array[int]) -> list[int]:
        """Which ids, by their places among these first and second hashes by turns, are not in the set."""
        return absent_of(self._bits, self._flip, self._hash_count, self._bit_count, pairs)

    def contains(self, pair: HashPair) -> bool:
        """Whether the id of that pair may be in the sender's set; False is certain."""
        bits, flip, bit_count = self._bits, self._flip, self._bit_count
        position = pair[0] % bit_count
        if not bits[(position >> 3) ^ flip] >> (position & 7) & 1:
            return False
        step = pair[1] % bit_count
        for _ in range(self._hash_count - 1):
            position += step
            if position >= bit_count:
                position -= bit_count
            if not bits[(position >> 3) ^ flip] >> (position & 7) & 1:
                return False
        return True
