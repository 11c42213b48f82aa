"""Pairs of sets for the measurement of set reconciliation: equal on both sides except for some logs.

A pair is one table of items, sorted by (public key, log id, sequence number), with the sides that hold each.
For negentropy an item is its SHA-256, and its position in the table is its timestamp, so differences at the
end of one order are also at the end of the other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from culm_connectors.logs.ranges import RangeSnapshot
from culm_connectors.logs.ranges.columns import Columns, join_keys
from culm_connectors.logs.ranges.overlay import Overlay
from culm_models.lifts import DEFAULT
from culm_models.lifts.vectors import join_items

_KEY_BYTES = 32
_FIRST_TIMESTAMP = 1_700_000_000
_MAX_HEIGHT = 200


@dataclass(frozen=True, eq=False)
class Pair:
    """Items as columns; `on_a` and `on_b` tell which side holds each. `differing` logs differ."""

    keys: NDArray[np.uint8]
    log_ids: NDArray[np.uint64]
    heights: NDArray[np.uint64]
    on_a: NDArray[np.bool_]
    on_b: NDArray[np.bool_]
    differing: int

    def side(self, is_held: NDArray[np.bool_]) -> RangeSnapshot:
        """Return one side's items as the edge has them ready when a session begins."""
        keys = join_keys(self.keys[is_held].tobytes(), self.log_ids[is_held])
        columns = Columns.of(DEFAULT, b"", keys, self.heights[is_held])
        return RangeSnapshot(columns, Overlay.empty(DEFAULT), DEFAULT)

    def write_for_negentropy(self, folder: Path) -> tuple[Path, Path]:
        """Write both sides' items in the form that `negentropy.cjs` reads."""
        packed = join_items(self.keys, self.log_ids, self.heights).tobytes()
        size = len(packed) // max(len(self.keys), 1)
        hashes = b"".join(
            hashlib.sha256(packed[at : at + size]).digest() for at in range(0, len(packed), size or 1)
        )
        table = np.zeros(len(self.keys), [("timestamp", "<u8"), ("id", "u1", 32)])
        table["timestamp"] = _FIRST_TIMESTAMP + np.arange(len(table))
        table["id"] = np.frombuffer(hashes, np.uint8).reshape(-1, 32)
        files = folder / "a.bin", folder / "b.bin"
        for file, is_held in zip(files, (self.on_a, self.on_b), strict=True):
            table[is_held].tofile(file)
        return files


def uniform(size: int, differing: int, *, logs_per_author: int = 1, seed: int = 7) -> Pair:
    """Make a pair in which each side is missing half of the differing logs, anywhere in the order."""
    random = np.random.default_rng(seed)
    keys, log_ids, heights = _logs(size, logs_per_author, random)
    on_a, on_b = np.ones(size, np.bool_), np.ones(size, np.bool_)
    places = random.choice(size, differing, replace=False)
    on_a[places[: differing // 2]] = False
    on_b[places[differing // 2 :]] = False
    return Pair(keys, log_ids, heights, on_a, on_b, differing)


def grown(size: int, differing: int, *, seed: int = 7) -> Pair:
    """Make a pair in which both sides have all logs, and each side has half of the differing logs longer.

    To negentropy each of them is two differing items.
    """
    random = np.random.default_rng(seed)
    keys, log_ids, heights = _logs(size, 1, random)
    places = np.sort(random.choice(size, differing, replace=False))
    longer_on_a = random.permutation(differing) < differing // 2
    copies = np.ones(size, np.int64)
    copies[places] = 2
    source = np.repeat(np.arange(size), copies)
    on_a, on_b = np.ones(len(source), np.bool_), np.ones(len(source), np.bool_)
    # The first of the two items of such a log is the lower height.
    low = places + np.arange(differing)
    tall = heights[source]
    tall[low + 1] += random.integers(1, 50, differing).astype(np.uint64)
    on_a[low], on_a[low + 1] = ~longer_on_a, longer_on_a
    on_b[low], on_b[low + 1] = longer_on_a, ~longer_on_a
    return Pair(keys[source], log_ids[source], tall, on_a, on_b, differing)


def tail(size: int, differing: int, *, seed: int = 7) -> Pair:
    """Make a pair in which the last author in the order has new logs that the starting side is missing."""
    random = np.random.default_rng(seed)
    keys, log_ids, heights = _logs(size, 1, random)
    if differing:
        keys[-differing:] = 0xFF
        log_ids[-differing:] = np.arange(differing)
        heights[-differing:] = random.integers(1, 20, differing)
    on_a = np.ones(size, np.bool_)
    on_a[size - differing :] = False
    return Pair(keys, log_ids, heights, on_a, np.ones(size, np.bool_), differing)


def _logs(
    size: int, logs_per_author: int, random: np.random.Generator
) -> tuple[NDArray[np.uint8], NDArray[np.uint64], NDArray[np.uint64]]:
    authors = -(-size // logs_per_author)
    keys = np.frombuffer(random.bytes(_KEY_BYTES * authors), np.uint8).reshape(-1, _KEY_BYTES)
    keys = keys[np.argsort(np.ascontiguousarray(keys).view(f"S{_KEY_BYTES}").reshape(-1), kind="stable")]
    log_ids = np.tile(np.arange(logs_per_author, dtype=np.uint64), authors)[:size]
    heights = random.integers(1, _MAX_HEIGHT, size).astype(np.uint64)
    return np.repeat(keys, logs_per_author, axis=0)[:size].copy(), log_ids, heights


SHAPES: dict[str, Callable[[int, int], Pair]] = {
    "uniform": uniform,
    "ten logs an author": partial(uniform, logs_per_author=10),
    "grown": grown,
    "tail": tail,
}
"""Distributions of the differences."""
