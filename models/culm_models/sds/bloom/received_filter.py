"""A filter as another participant sent it, and which of our newest ids it lacks.

It is asked straight on its bytes, and believed only when it can be true. A message may come late and belong
far back in the log, where no causal history names it any more. Whoever lacks it then hears of it from nobody,
unless those who have it look: a filter holds every id that its sender took lately, so an id which is not in
it is one that the sender has not got, or got long ago.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

from culm_models.sds.bloom.build import absent_of, covers, set_bit_count
from culm_models.sds.bloom.layout import LAYOUTS, BloomShape, HashPair, LayoutName, unwrapped

_FULL_PERCENT = 60
"""A filter at its designed capacity has half of its bits set, and nim's before its first rollover 55 %."""
_DIGEST_BYTES: Final = 8


class ReceivedFilter:
    """The bits of a received filter, and the numbers to read them with."""

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

    @property
    def digest(self) -> bytes:
        """Short hash of the bits: equal for equal filters, whose false positives are the same."""
        if self._digest is None:
            self._digest = blake2b(self._bits, digest_size=_DIGEST_BYTES).digest()
        return self._digest

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


_MOST: Final = 512


class Recent:
    """At most 512 ids of the log, and no more than a filter of the channel always holds."""

    __slots__ = ("_gone", "_held", "_ids", "_kind", "_most", "_pairs")

    def __init__(self, layout: LayoutName, held: int) -> None:
        """`held`: the newest ids that every filter of the channel holds."""
        self._kind = LAYOUTS[layout]
        self._most = min(_MOST, held)
        # With some at the front that have gone already, so that not every new one moves all others.
        self._ids: list[str] = []
        self._gone = 0
        self._held: set[str] = set()
        # Of the first ids, as far as they have been asked for.
        self._pairs = array(self._kind.pair_code)

    @property
    def most(self) -> int:
        """How many ids there can be."""
        return self._most

    def add(self, message_id: str) -> None:
        """An id has come into the log."""
        self._ids.append(message_id)
        self._held.add(message_id)
        if len(self._ids) - self._gone > self._most:
            self._held.remove(self._ids[self._gone])
            self._gone += 1
            if self._gone > self._most:
                del self._ids[: self._gone]
                del self._pairs[: 2 * self._gone]
                self._gone = 0

    def extend(self, message_ids: Iterable[str]) -> None:
        """Several, in their order."""
        for message_id in message_ids:
            self.add(message_id)

    def drop(self, message_id: str) -> None:
        """An id has left the log."""
        if message_id in self._held:
            place = self._ids.index(message_id, self._gone)
            self._held.remove(message_id)
            del self._ids[place]
            del self._pairs[2 * place : 2 * place + 2]

    def ids(self) -> list[str]:
        """The ids, oldest first."""
        return self._ids[self._gone :]

    def absent(self, found: ReceivedFilter, *, but: int = 0) -> list[str]:
        """Those that are not in a filter, oldest first; the newest `but` of them are not looked at."""
        for message_id in self._ids[len(self._pairs) // 2 :]:
            self._pairs.extend(self._kind.hash_pair(message_id))
        first, end = self._gone, max(len(self._ids) - but, self._gone)
        return [self._ids[first + place] for place in found.absent(self._pairs[2 * first : 2 * end])]
