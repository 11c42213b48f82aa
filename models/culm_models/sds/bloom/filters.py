"""The filters of a channel: its own, and those that other participants send.

The channel's filter grows by one id at a time, starts over before it fills, and can go back. Besides the
bits, the ids are kept in order as their hash pairs, 8 bytes per id (16 in nim). So the value that a message
carried can be rebuilt byte for byte, and a snapshot needs only the pairs.

A received filter is read directly from its bytes, and is used as evidence only if it is not too full. A
message may arrive late and belong far back in the log, where no causal history names it any more. A
participant that is missing it learns of it only if those who have it look at its filter: a filter holds every
id that its sender took lately, so the sender does not have an id outside its filter, or has had it for long.

`vectors` handles many ids at once if numpy is installed.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from types import ModuleType
from typing import Final

from culm_models.sds.bloom.layout import (
    LAYOUTS,
    BloomShape,
    HashPair,
    Layout,
    LayoutName,
    set_bits,
    unwrapped,
    wrapped,
)
from culm_models.sds.errors import BloomForgottenError, BloomSnapshotError

_FEW_IDS = 64
"""With fewer ids, setting the bits one by one is as fast as calling numpy."""

_FEW_ASKED = 16
_FEW_BYTES = 1_024


def filter_of(layout: LayoutName, message_ids: Iterable[str], capacity: int, error_rate: float) -> bytes:
    """Return a filter of these ids as the message field's bytes. It never rolls over, so it may overfill."""
    kind, shape = LAYOUTS[layout], BloomShape.sized(capacity, error_rate)
    pairs = array(kind.pair_code)
    for message_id in message_ids:
        pairs.extend(kind.hash_pair(message_id))
    bits = bytearray(shape.byte_count)
    filled(bits, kind, shape, pairs)
    return written(bits, kind, shape)


def written(bits: bytearray, layout: Layout, shape: BloomShape) -> bytes:
    """Return a filter with these bits as the bytes of the message field."""
    if not layout.contained:
        return bytes(bits)
    before, after = wrapped(shape)
    return b"".join((before, bits, after))


def filled(bits: bytearray, layout: Layout, shape: BloomShape, pairs: array[int]) -> None:
    """Insert ids into a filter of that shape; `pairs` has first and second hashes in alternation."""
    many = _vectors() if len(pairs) > 2 * _FEW_IDS else None
    if many is None:
        set_bits(bits, layout, shape, zip(pairs[::2], pairs[1::2], strict=True))
    else:
        many.set_many(bits, layout, shape, pairs)


def set_bit_count(bits: bytes) -> int:
    """Return the number of set bits of a filter."""
    many = _vectors() if len(bits) > _FEW_BYTES else None
    return int.from_bytes(bits, "little").bit_count() if many is None else many.set_bit_count(bits)


def covers(bits: bytes, others: bytes | bytearray) -> bool:
    """Whether every bit of `others`, of equal length, is set in `bits`."""
    many = _vectors() if len(bits) > _FEW_BYTES else None
    if many is not None:
        covered: bool = many.covers(bits, others)
        return covered
    number = int.from_bytes(bits, "little")
    return number | int.from_bytes(others, "little") == number


def absent_of(bits: bytes, flip: int, hash_count: int, bit_count: int, pairs: array[int]) -> list[int]:
    """Return the positions of ids not in a filter; `pairs` has alternating first and second hashes."""
    many = _vectors() if len(pairs) > 2 * _FEW_ASKED else None
    if many is not None:
        places: list[int] = many.absent_of(bits, flip, hash_count, bit_count, pairs)
        return places
    steps = range(hash_count)

    def held(first: int, second: int) -> bool:
        positions = ((first + step * second) % bit_count for step in steps)
        return all(bits[(position >> 3) ^ flip] >> (position & 7) & 1 for position in positions)

    return [at for at in range(len(pairs) // 2) if not held(pairs[2 * at], pairs[2 * at + 1])]


@cache
def _vectors() -> ModuleType | None:
    # models does not require numpy: an installation of models and topics alone takes milliseconds more per
    # rebuild.
    try:
        from culm_models.sds.bloom import vectors as bloom_vectors
    except ImportError:
        return None
    return bloom_vectors


_FULL_PERCENT = 60
"""A filter at its designed capacity has half of its bits set, and nim's before its first rollover 55 %."""
_DIGEST_BYTES: Final = 8


class ReceivedFilter:
    """The bits of a received filter, and the parameters to read them."""

    __slots__ = ("_bit_count", "_bits", "_digest", "_flip", "_full", "_hash_count")

    def __init__(self, bits: bytes, flip: int, hash_count: int, bit_count: int) -> None:
        self._bits = bits
        self._flip = flip
        self._hash_count = hash_count
        self._bit_count = bit_count
        self._full: bool | None = None
        self._digest: bytes | None = None

    @classmethod
    def parse(
        cls, layout: LayoutName, value: bytes, capacity: int, error_rate: float
    ) -> ReceivedFilter | None:
        """Parse the filter in a message's field. Returns None for bytes of another length or shape.

        `capacity` and `error_rate` are the channel's. In profile nim the container has its own parameters.
        """
        kind = LAYOUTS[layout]
        if kind.contained:
            unwrapped_filter = unwrapped(value)
            if unwrapped_filter is None:
                return None
            bits, hash_count, bit_count = unwrapped_filter
            return cls(bits, kind.byte_flip, hash_count, bit_count)
        shape = BloomShape.sized(capacity, error_rate)
        if len(value) != shape.byte_count:
            return None
        return cls(value, kind.byte_flip, shape.hash_count, shape.bit_count)

    @property
    def is_evidence(self) -> bool:
        """Whether a hit is evidence: at most 60 % of the bits are set. A full filter contains every id."""
        if self._full is None:
            self._full = set_bit_count(self._bits) * 100 > self._bit_count * _FULL_PERCENT
        return not self._full

    @property
    def digest(self) -> bytes:
        """Short hash of the bits: equal for equal filters, whose false positives are the same."""
        if self._digest is None:
            self._digest = blake2b(self._bits, digest_size=_DIGEST_BYTES).digest()
        return self._digest

    def covers(self, bits: bytes | bytearray, shape: BloomShape) -> bool:
        """Whether this filter has every bit of `bits`, a filter of that shape and this layout."""
        if (len(bits), shape.hash_count, shape.bit_count) != (
            len(self._bits),
            self._hash_count,
            self._bit_count,
        ):
            return False
        return covers(self._bits, bits)

    def absent(self, pairs: array[int]) -> list[int]:
        """Return the positions of ids not in the set; `pairs` has alternating first and second hashes."""
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


_MARK_BYTES = 8
_SPARE_PAIRS = 1_024
"""Forgotten pairs are cut off in bulk: at least so many, and at least as many as are kept."""


@dataclass(frozen=True, slots=True)
class Rollover:
    """The rule by which a filter of more than `limit` ids starts over with the newest `kept` of them.

    `first` is its shape before the first rollover, `later` the shape from then on.
    """

    limit: int
    kept: int
    first: BloomShape
    later: BloomShape

    @classmethod
    def of(cls, layout: LayoutName, capacity: int, error_rate: float) -> Rollover:
        """Return a layout's rule: nim fills to 120 % and keeps 80 %; the others keep half at capacity.

        The filter of nim is larger after the first rollover.
        """
        first = BloomShape.sized(capacity, error_rate)
        if layout == "nim":
            filled, kept = int(capacity * 120.0 / 100.0), int(capacity * 80.0 / 100.0)
            return cls(filled, max(kept, 1), first, BloomShape.sized(filled, error_rate))
        return cls(capacity, max(capacity // 2, 1), first, first)

    @property
    def byte_count(self) -> int:
        """The size of the larger of both shapes, in bytes."""
        return max(self.first.byte_count, self.later.byte_count)

    def held(self, mark: int) -> int:
        """Return how many of the newest ids the filter holds after `mark` ids."""
        if mark <= self.limit:
            return mark
        return self.kept + (mark - self.limit - 1) % (self.limit - self.kept + 1)

    def shape(self, mark: int) -> BloomShape:
        """Return the filter's shape after `mark` ids."""
        return self.first if mark <= self.limit else self.later


class RollingFilter:
    """The filter of the ids in a channel's log, in the order in which they were added. Add each id once."""

    __slots__ = ("_base", "_bits", "_held", "_kind", "_pairs", "_rebuilt", "_rollover", "_shape", "_value")

    def __init__(self, layout: LayoutName, capacity: int, error_rate: float) -> None:
        """Make an empty filter. Raises `BloomShapeError` if the parameters give no filter."""
        self._kind = LAYOUTS[layout]
        self._rollover = Rollover.of(layout, capacity, error_rate)
        self._base = 0
        self._pairs = array(self._kind.pair_code)
        self._value: bytes | None = None
        self._rebuilt: tuple[int, int, bytearray] | None = None
        self._start_over()

    def add(self, message_id: str) -> HashPair:
        """Add an id and return its hash pair."""
        pair = self._kind.hash_pair(message_id)
        self._pairs.extend(pair)
        self._value = None
        self._held += 1
        if self._held > self._rollover.limit:
            self._start_over()
        else:
            set_bits(self._bits, self._kind, self._shape, (pair,))
        return pair

    @property
    def byte_count(self) -> int:
        """The largest size of its bits, in bytes."""
        return self._rollover.byte_count

    @property
    def mark(self) -> int:
        """The number of ids that were ever added."""
        return self._base + len(self._pairs) // 2

    @property
    def least_held(self) -> int:
        """The number of newest ids that it always holds, once that many were added."""
        return self._rollover.kept

    def __len__(self) -> int:
        """Return the number of ids that the filter holds now."""
        return self._held

    def within(self, received: ReceivedFilter) -> bool:
        """Whether the sender of a filter holds everything that this filter holds, as far as bits show."""
        return received.covers(self._bits, self._shape)

    def value(self) -> bytes:
        """Return the message field's bytes now. A message's own id is not in its field: add it afterwards."""
        if self._value is None:
            self._value = written(self._bits, self._kind, self._shape)
        return self._value

    def value_at(self, mark: int) -> bytes:
        """Return `value` as it was after `mark` ids. Raises `BloomForgottenError` if that is no longer known.

        Several marks of one stretch are cheaper in rising order.
        """
        if mark == self.mark:
            return self.value()
        start, shape = self._start_at(mark), self._rollover.shape(mark)
        rebuilt_start, rebuilt_mark, bits = self._rebuilt or (-1, -1, bytearray())
        if rebuilt_start != start or rebuilt_mark > mark:
            rebuilt_mark, bits = start, bytearray(shape.byte_count)
        filled(bits, self._kind, shape, self._pairs_between(rebuilt_mark, mark))
        self._rebuilt = (start, mark, bits)
        return written(bits, self._kind, shape)

    def forget(self, before_mark: int) -> None:
        """Forget the pairs that only values before that mark need."""
        mark = min(before_mark, self.mark)
        spare = self.needed_for(mark) - self._base
        if spare >= max(_SPARE_PAIRS, len(self._pairs) // 4):
            del self._pairs[: 2 * spare]
            self._base += spare

    def needed_for(self, mark: int) -> int:
        """Return the mark after which all pairs lie that the values from `mark` on need."""
        return mark - self._rollover.held(mark)

    def pack_since(self, mark: int) -> bytes:
        """Serialize the ids added since a mark, for a snapshot: where they begin (u64), then their pairs.

        All numbers are little-endian. It begins later than `mark` if older ids were forgotten.
        """
        start = max(mark, self._base)
        pairs = _little(self._pairs_between(start, self.mark))
        return start.to_bytes(_MARK_BYTES, "little") + pairs.tobytes()

    def extend_packed(self, data: bytes) -> None:
        """Read the bytes of `pack_since`; the parts of one filter must come in order.

        Raises `BloomSnapshotError` for malformed bytes or a part that does not follow.
        """
        start = int.from_bytes(data[:_MARK_BYTES], "little")
        pairs = array(self._kind.pair_code)
        packed = data[_MARK_BYTES:]
        if len(data) < _MARK_BYTES or len(packed) % (2 * pairs.itemsize):
            raise BloomSnapshotError(f"{len(data)} bytes are no pairs of hashes")
        if start != self.mark:
            if self._pairs or self._base:
                raise BloomSnapshotError(f"pairs from {start} on do not follow {self.mark}")
            self._base = start
        pairs.frombytes(packed)
        self._pairs.extend(_little(pairs))
        self._start_over()

    def _start_over(self) -> None:
        """Rebuild the bits from the pairs of the newest ids."""
        mark = self.mark
        self._shape = self._rollover.shape(mark)
        self._held = min(self._rollover.held(mark), mark - self._base)
        self._bits = bytearray(self._shape.byte_count)
        self._value = None
        filled(self._bits, self._kind, self._shape, self._pairs_between(mark - self._held, mark))

    def _start_at(self, mark: int) -> int:
        start = mark - self._rollover.held(mark)
        if not self._base <= start <= mark <= self.mark:
            raise BloomForgottenError(f"the filter after {mark} ids is not known any more")
        return start

    def _pairs_between(self, start: int, end: int) -> array[int]:
        return self._pairs[2 * (start - self._base) : 2 * (end - self._base)]


def _little(pairs: array[int]) -> array[int]:
    if sys.byteorder == "big":
        pairs = pairs[:]
        pairs.byteswap()
    return pairs
