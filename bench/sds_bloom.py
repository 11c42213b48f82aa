"""SDS bloom filters: inserts and look-ups, beside mmh3 with a bytearray per id, and @waku/sds."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from statistics import median

import mmh3

from bench import waku_sds
from bench.harness import BenchSettings, Ratio, interleaved_rates
from culm_models.sds.bloom import (
    LAYOUTS,
    BloomShape,
    LayoutName,
    ReceivedFilter,
    RollingFilter,
    filter_of,
)
from culm_models.sds.bloom import vectors as bloom_vectors
from culm_models.sds.bloom.layout import unwrapped

_CAPACITY, _ERROR_RATE = 10_000, 0.001
_PLAIN = "mmh3 and a bytearray, id by id"
_WAKU = "@waku/sds"
_BATCH_GOAL = 1.0
"""A million inserts per second, in millions."""


def run(settings: BenchSettings) -> list[Ratio]:
    """Measure all in one thread, alternating; @waku/sds in a separate process, between the rounds."""
    count, repeats = (2_000, 1) if settings.quick else (_CAPACITY, 7)
    inside, outside = made_ids("id", count), made_ids("no", count)
    plain = PlainFilter()
    plain.insert(inside)
    layouts: tuple[LayoutName, ...] = ("js", "nim")
    sides = [Side(layout, inside, outside) for layout in layouts]
    rows: list[tuple[str, Callable[[], int], Callable[[], int]]] = []
    for side in sides:
        rows += [
            (f"{side.layout}, inserts one by one", side.grown, lambda: PlainFilter().insert(inside)),
            (f"{side.layout}, inserts in a batch", side.built, lambda: PlainFilter().insert(inside)),
            (f"{side.layout}, hits one by one", side.hits, lambda: plain.contains(inside)),
            (f"{side.layout}, misses one by one", side.misses, lambda: plain.contains(outside)),
            (f"{side.layout}, hits in a batch", side.hits_at_once, lambda: plain.contains(inside)),
            (f"{side.layout}, misses in a batch", side.misses_at_once, lambda: plain.contains(outside)),
        ]
    ratios: list[Ratio] = []
    for name, ours, theirs in rows:
        our_rate, plain_rate = interleaved_rates([ours, theirs], repeats=repeats)
        ratios.append(Ratio("sds-bloom", name, our_rate, plain_rate, "ids/s", _PLAIN, goal=None))
        if name == "js, inserts in a batch":
            ratios.append(
                Ratio("sds-bloom", name, our_rate, 1e6, "ids/s", "a million a second", goal=_BATCH_GOAL)
            )
    return ratios + _beside_waku(ratios, count, repeats)


def _beside_waku(ratios: Sequence[Ratio], count: int, repeats: int) -> list[Ratio]:
    package = waku_sds.implementation()
    if package is None:
        return []
    answers = [waku_sds.asked(package, "bloom", ids=count) for _ in range(min(repeats, 3))]
    theirs = {kind: median(answer[kind] for answer in answers) for kind in ("inserts", "hits", "misses")}
    return [
        Ratio("sds-bloom", ratio.name, ratio.ours, theirs[kind], ratio.unit, _WAKU, goal=None)
        for ratio in ratios
        for kind in theirs
        if ratio.limit_name == _PLAIN and ratio.name.startswith(f"js, {kind}")
    ]


def made_ids(name: str, count: int) -> list[str]:
    """Return message ids in their usual form: SHA-256 in hexadecimal."""
    return [hashlib.sha256(f"{name}-{index}".encode()).hexdigest() for index in range(count)]


class PlainFilter:
    """The obvious implementation: the same bits as ours in layout js, hashed and set id by id."""

    def __init__(self) -> None:
        self._shape = BloomShape.sized(_CAPACITY, _ERROR_RATE)
        self._bits = bytearray(self._shape.byte_count)

    def insert(self, ids: Sequence[str]) -> int:
        for id in ids:
            for position in self._positions(id):
                self._bits[8 * (position // 64) + 7 - position % 64 // 8] |= 1 << position % 8
        return len(ids)

    def contains(self, ids: Sequence[str]) -> int:
        bits = self._bits
        for id in ids:
            all(bits[8 * (at // 64) + 7 - at % 64 // 8] >> at % 8 & 1 for at in self._positions(id))
        return len(ids)

    def _positions(self, id: str) -> Iterator[int]:
        bit_count = self._shape.bit_count
        first, second = abs(mmh3.hash(id)) % bit_count, abs(mmh3.hash(id + " b")) % bit_count
        return ((first + index * second) % bit_count for index in range(self._shape.hash_count))


class Side:
    """Our filters in one layout. Look-ups use a filter's received bytes, hashing included."""

    def __init__(self, layout: LayoutName, inside: Sequence[str], outside: Sequence[str]) -> None:
        self.layout = layout
        self._inside, self._outside = inside, outside
        self._shape = BloomShape.sized(_CAPACITY, _ERROR_RATE)
        value = filter_of(layout, inside, _CAPACITY, _ERROR_RATE)
        self._value = value
        self._bits = bloom_words(layout, value)

    def grown(self) -> int:
        """Add ids one by one, as a channel does."""
        rolling = RollingFilter(self.layout, _CAPACITY, _ERROR_RATE)
        for id in self._inside:
            rolling.add(id)
        return len(self._inside)

    def built(self) -> int:
        """Add many ids at once, up to the bytes of a message's field."""
        pairs = bloom_vectors.hash_pairs(self.layout, self._inside)
        bloom_vectors.filter_value(self.layout, self._shape, pairs)
        return len(self._inside)

    def hits(self) -> int:
        return self._asked(self._inside)

    def misses(self) -> int:
        return self._asked(self._outside)

    def hits_at_once(self) -> int:
        return self._asked_at_once(self._inside)

    def misses_at_once(self) -> int:
        return self._asked_at_once(self._outside)

    def _asked(self, ids: Sequence[str]) -> int:
        received = ReceivedFilter.parse(self.layout, self._value, _CAPACITY, _ERROR_RATE)
        assert received is not None
        for id in ids:
            received.contains(LAYOUTS[self.layout].hash_pair(id))
        return len(ids)

    def _asked_at_once(self, ids: Sequence[str]) -> int:
        pairs = bloom_vectors.hash_pairs(self.layout, ids)
        bloom_vectors.contains_many(self.layout, self._shape, self._bits, pairs)
        return len(ids)


def bloom_words(layout: LayoutName, value: bytes) -> bytes:
    """Return the bits of a message's field, for nim out of its container."""
    fields = unwrapped(value) if layout == "nim" else (value, 0, 0)
    assert fields is not None
    return fields[0]
