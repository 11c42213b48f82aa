"""Our own filter of a channel: it grows by one id at a time, starts over before it fills, and can go back.

Beside the bits, the ids are kept in order as their hash pairs, 8 bytes an id (16 in profile nim). So the
value that a message carried can be made again, byte for byte, and a snapshot needs the pairs alone.
"""

from __future__ import annotations

import sys
from array import array
from dataclasses import dataclass

from culm_models.sds.bloom.build import filled, written
from culm_models.sds.bloom.layout import LAYOUTS, BloomShape, HashPair, LayoutName, set_bits
from culm_models.sds.bloom.received_filter import ReceivedFilter
from culm_models.sds.wire.errors import BloomForgottenError, BloomSnapshotError

_MARK_BYTES = 8
_SPARE_PAIRS = 1_024
"""Forgotten pairs are cut off when there are so many, and as many as are kept: not one by one."""


@dataclass(frozen=True, slots=True)
class Rollover:
    """A filter that would hold more than `most` ids starts over with the newest `kept` of them.

    `first` is its shape before the first rollover and `later` from then on.
    """

    most: int
    kept: int
    first: BloomShape
    later: BloomShape

    @classmethod
    def of(cls, layout: LayoutName, capacity: int, error_rate: float) -> Rollover:
        """nim's peer lets 20 % more in, keeps 80 %, and is larger afterwards; ours keeps half at capacity."""
        first = BloomShape.sized(capacity, error_rate)
        if layout == "nim":
            most, kept = int(capacity * 120.0 / 100.0), int(capacity * 80.0 / 100.0)
            return cls(most, max(kept, 1), first, BloomShape.sized(most, error_rate))
        return cls(capacity, max(capacity // 2, 1), first, first)

    @property
    def byte_count(self) -> int:
        """The larger of both shapes, in bytes."""
        return max(self.first.byte_count, self.later.byte_count)

    def held(self, mark: int) -> int:
        """How many of the newest ids the filter holds after `mark` ids."""
        if mark <= self.most:
            return mark
        return self.kept + (mark - self.most - 1) % (self.most - self.kept + 1)

    def shape(self, mark: int) -> BloomShape:
        """The filter's shape after `mark` ids."""
        return self.first if mark <= self.most else self.later


class RollingFilter:
    """The filter of the ids that a channel has taken into its log, in that order. Add each id once."""

    __slots__ = ("_base", "_bits", "_held", "_kind", "_pairs", "_rebuilt", "_rollover", "_shape", "_value")

    def __init__(self, layout: LayoutName, capacity: int, error_rate: float) -> None:
        """An empty filter. Raises BloomShapeError for measures that give none."""
        self._kind = LAYOUTS[layout]
        self._rollover = Rollover.of(layout, capacity, error_rate)
        self._base = 0
        self._pairs = array(self._kind.pair_code)
        self._value: bytes | None = None
        self._rebuilt: tuple[int, int, bytearray] | None = None
        self._start_over()

    def add(self, message_id: str) -> HashPair:
        """Take an id in; its hash pair."""
        pair = self._kind.hash_pair(message_id)
        self._pairs.extend(pair)
        self._value = None
        self._held += 1
        if self._held > self._rollover.most:
            self._start_over()
        else:
            set_bits(self._bits, self._kind, self._shape, (pair,))
        return pair

    @property
    def byte_count(self) -> int:
        """What its bits take at most, in bytes."""
        return self._rollover.byte_count

    @property
    def mark(self) -> int:
        """How many ids have ever been added."""
        return self._base + len(self._pairs) // 2

    @property
    def least_held(self) -> int:
        """How many of the newest ids it holds at any time, when there have been so many."""
        return self._rollover.kept

    def __len__(self) -> int:
        """How many ids the filter stands for now."""
        return self._held

    def within(self, found: ReceivedFilter) -> bool:
        """Whether the sender of a filter lacks nothing that this one holds, as far as bits show."""
        return found.covers(self._bits, self._shape)

    def value(self) -> bytes:
        """The message field's bytes now. A message's field lacks its own id: take it before adding that."""
        if self._value is None:
            self._value = written(self._bits, self._kind, self._shape)
        return self._value

    def value_at(self, mark: int) -> bytes:
        """What `value` was when `mark` ids had been added. Raises BloomForgottenError when that is gone.

        Later marks of one stretch are cheaper when asked for in rising order.
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
        """Let go of the pairs that only values before that mark need."""
        mark = min(before_mark, self.mark)
        spare = self.needed_for(mark) - self._base
        if spare >= max(_SPARE_PAIRS, len(self._pairs) // 4):
            del self._pairs[: 2 * spare]
            self._base += spare

    def needed_for(self, mark: int) -> int:
        """The mark behind which lie all pairs that the values at `mark` and after it need."""
        return mark - self._rollover.held(mark)

    def pack_since(self, mark: int) -> bytes:
        """The ids added since a mark, for a snapshot: where they begin (u64), then their pairs.

        All numbers are little-endian. It begins later than asked where older ids have been let go.
        """
        start = max(mark, self._base)
        pairs = _little(self._pairs_between(start, self.mark))
        return start.to_bytes(_MARK_BYTES, "little") + pairs.tobytes()

    def extend_packed(self, data: bytes) -> None:
        """Take in what `pack_since` gave, the parts of one filter in their order.

        Raises BloomSnapshotError for bytes that are no such part, or not the next one.
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
        """Make the bits anew from the pairs of the newest ids."""
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
