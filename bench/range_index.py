"""The range index at a million logs, against sorted Python lists that are searched by bisection."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from bisect import bisect_left
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bench.harness import BenchSettings, Ratio, interleaved_rates, say
from culm_connectors.logs.ranges import RangeIndex, RangeSnapshot, Snapshots
from culm_connectors.logs.ranges.columns import Rows, U64s
from culm_models.lifts import ADD128

_LIMIT = "sorted Python lists"
_MEMORY_LIMIT_MB = 250
_RANGES = 16
"""A fingerprint covers a sixteenth of the logs, like those with which a session opens."""
_UPDATES = 20_000
_INSERTIONS = 2_000
_ONE_BY_ONE = 50
_AT_ONCE = 200
_BETWEEN_SNAPSHOTS = 100
_PLAIN_SNAPSHOTS = 5

Action = Callable[[Any], int]


def run(settings: BenchSettings) -> list[Ratio]:
    """Measure both in one thread, alternating; memory is measured in a separate process."""
    size, repeats = (20_000, 1) if settings.quick else (1_000_000, 3)
    say(f"  {size:,} logs")
    keys, heights = made_logs(size)
    pairs = [(key.tobytes(), height) for key, height in zip(keys, heights.tolist(), strict=True)]
    ours, plain = Ours(), PlainLists()

    def ratio(
        name: str, unit: str, our_action: Action, plain_action: Action, make: Callable[[], Any]
    ) -> Ratio:
        # Arguments are made before the clock starts.
        our_turns, plain_turns = [make() for _ in range(repeats)], [make() for _ in range(repeats)]
        ours_rate, plain_rate = interleaved_rates(
            [lambda: our_action(our_turns.pop()), lambda: plain_action(plain_turns.pop())], repeats=repeats
        )
        details = {"logs": size}
        return Ratio("ranges", name, ours_rate, plain_rate, unit, _LIMIT, goal=None, details=details)

    work = Work(pairs)
    few = lambda: work.bounds(_ONE_BY_ONE)  # noqa: E731
    many = lambda: work.bounds(_AT_ONCE)  # noqa: E731
    return [
        ratio("build", "logs/s", lambda _: ours.build(keys, heights), plain.build, lambda: pairs),
        ratio("growth of a log", "/s", ours.grow, plain.grow, work.growth),
        ratio("new log", "/s", ours.grow, plain.insert, work.new),
        ratio("fingerprint, one at a time", "/s", ours.one_by_one, plain.fingerprints, few),
        ratio("fingerprint, many at once", "/s", ours.fingerprints, plain.fingerprints, many),
        ratio("100 updates and a snapshot", "/s", ours.snapshots, plain.snapshots, work.growth),
        _memory(size, ours),
    ]


def made_logs(size: int) -> tuple[Rows, U64s]:
    """Return keys in random order, and heights."""
    source = np.random.default_rng(1)
    return source.integers(0, 256, (size, 40), np.uint8), source.integers(1, 1_000, size).astype(np.uint64)


class Work:
    """Arguments for both sides: of the same kind in every round, never the same logs."""

    def __init__(self, pairs: list[tuple[bytes, int]]) -> None:
        self._random = random.Random(2)
        self._pairs = pairs
        self._height = 1_000

    def growth(self) -> list[tuple[bytes, int]]:
        """Return higher heights of held logs."""
        self._height += 1
        count = min(_UPDATES, len(self._pairs))
        return [(key, self._height) for key, _ in self._random.sample(self._pairs, count)]

    def new(self) -> list[tuple[bytes, int]]:
        """Return logs that are not held."""
        return [(self._random.randbytes(40), 1) for _ in range(_INSERTIONS)]

    def bounds(self, count: int) -> list[tuple[bytes, bytes]]:
        """Return lower and upper bounds of ranges that contain about a sixteenth of all logs."""
        step = 2**16 // _RANGES
        firsts = [self._random.randrange(2**16 - step) for _ in range(count)]
        return [
            (first.to_bytes(2, "big") + bytes(30), (first + step).to_bytes(2, "big") + bytes(30))
            for first in firsts
        ]


class Ours:
    """The range index as a connector uses it; the updates include the cost of a merge in a thread."""

    def __init__(self) -> None:
        self._index = RangeIndex()
        self._snapshots = Snapshots()

    def build(self, keys: Rows, heights: U64s) -> int:
        self._index = RangeIndex()
        self._index.load(keys, heights)
        return len(keys)

    def grow(self, changes: list[tuple[bytes, int]]) -> int:
        for key, height in changes:
            self._index.raise_height(key, height)
        while work := self._index.merge_work():
            work()
        # The cost of the next snapshot belongs to this update.
        self.snapshot()
        return len(changes)

    def snapshot(self) -> RangeSnapshot:
        return self._snapshots.of([self._index], ADD128)

    def fingerprints(self, bounds: list[tuple[bytes, bytes]]) -> int:
        snapshot = self.snapshot()
        ranks = snapshot.ranks([(key, 0, 0) for pair in bounds for key in pair])
        spans = [(low, high - low) for low, high in zip(ranks[::2], ranks[1::2], strict=True)]
        return len(snapshot.fingerprints(spans))

    def one_by_one(self, bounds: list[tuple[bytes, bytes]]) -> int:
        return sum(self.fingerprints([pair]) for pair in bounds)

    def snapshots(self, changes: list[tuple[bytes, int]]) -> int:
        count = len(changes) // _BETWEEN_SNAPSHOTS
        for number in range(count):
            self.snapshot()
            for key, height in changes[number * _BETWEEN_SNAPSHOTS :][:_BETWEEN_SNAPSHOTS]:
                self._index.raise_height(key, height)
        return count

    def merge_seconds(self) -> float:
        """Return the seconds that the merge of a grown overlay takes, in any thread."""
        for count in range(1, 1_000_000):
            self._index.raise_height(random.Random(count).randbytes(40), 1)
            if self._index.merge_is_due:
                break
        work = self._index.merge_work()
        if work is None:
            return 0.0
        started = time.perf_counter()
        work()
        return time.perf_counter() - started


class PlainLists:
    """The obvious implementation: keys, heights and lanes in lists, sorted by key."""

    def __init__(self) -> None:
        self._keys: list[bytes] = []
        self._heights: list[int] = []
        self._lanes: tuple[list[int], list[int]] = [], []

    def build(self, pairs: list[tuple[bytes, int]]) -> int:
        rows = sorted(pairs)
        self._keys = [key for key, _ in rows]
        self._heights = [height for _, height in rows]
        lanes = [_lanes(key, height) for key, height in rows]
        self._lanes = [first for first, _ in lanes], [second for _, second in lanes]
        return len(rows)

    def grow(self, changes: list[tuple[bytes, int]]) -> int:
        for key, height in changes:
            index = bisect_left(self._keys, key)
            self._heights[index] = height
            self._lanes[0][index], self._lanes[1][index] = _lanes(key, height)
        return len(changes)

    def insert(self, changes: list[tuple[bytes, int]]) -> int:
        for key, height in changes:
            index = bisect_left(self._keys, key)
            first, second = _lanes(key, height)
            self._keys.insert(index, key)
            self._heights.insert(index, height)
            self._lanes[0].insert(index, first)
            self._lanes[1].insert(index, second)
        return len(changes)

    def fingerprints(self, bounds: list[tuple[bytes, bytes]]) -> int:
        for low, high in bounds:
            first, last = bisect_left(self._keys, low), bisect_left(self._keys, high)
            lanes = tuple(sum(column[first:last]) % 2**64 for column in self._lanes)
            ADD128.prefix() + ADD128.value(lanes)
        return len(bounds)

    def snapshots(self, changes: list[tuple[bytes, int]]) -> int:
        for number in range(_PLAIN_SNAPSHOTS):
            kept = [list(column) for column in (self._keys, self._heights, *self._lanes)]
            self.grow(changes[number * _BETWEEN_SNAPSHOTS :][:_BETWEEN_SNAPSHOTS])
            del kept
        return _PLAIN_SNAPSHOTS


def _lanes(key: bytes, height: int) -> tuple[int, ...]:
    return ADD128.lanes((key[:32], int.from_bytes(key[32:], "big"), height))


def _memory(size: int, ours: Ours) -> Ratio:
    merge_ms = ours.merge_seconds() * 1_000
    say(f"  one merge in a thread: {merge_ms:,.0f} ms")
    resident, peak = _measured(f"resident_mb({size})")
    plain, _ = _measured(f"resident_mb({size}, plain=True)")
    details = {"logs": size, "peak_mb": peak, "plain_mb": plain, "merge_ms": merge_ms}
    return Ratio(
        "ranges",
        "memory",
        resident,
        _MEMORY_LIMIT_MB,
        "MB",
        "what is allowed for a million logs",
        goal=1.0,
        higher_is_better=False,
        details=details,
    )


def _measured(call: str) -> tuple[float, float]:
    program = f"from bench.range_index import resident_mb; print(*{call})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    resident, peak = map(float, done.stdout.split())
    return resident, peak


def resident_mb(size: int, *, plain: bool = False) -> tuple[float, float]:
    """Return the memory in MB that an index adds to this process, and its peak, after updating one
    percent.
    """
    before = _resident("VmRSS")
    keys, heights = made_logs(size)
    changed = [key.tobytes() for key in keys[: size // 100]]
    index: Ours | PlainLists
    if plain:
        index = PlainLists()
        index.build([(key.tobytes(), height) for key, height in zip(keys, heights.tolist(), strict=True)])
    else:
        index = Ours()
        index.build(keys, heights)
    del keys, heights
    index.grow([(key, 2_000) for key in changed])
    return _resident("VmRSS") - before, _resident("VmHWM") - before


def _resident(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith(field + ":")]
    return int(line.split()[1]) / 1_000
