"""Sorted logs as numpy columns with prefix sums, the basis of a range index. Everything is immutable.

A log is one row: its key of 40 bytes (public key, log id big-endian), its height, and the combination of
the lanes of all rows before it. The combination of any run of rows is the difference of two of these sums.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from culm_models.lifts import Item, Lift
from culm_models.lifts.vectors import lift_many

U64s: TypeAlias = NDArray[np.uint64]
"""Numbers in one dimension, or lanes as (n, lane_count)."""
Rows: TypeAlias = NDArray[np.uint8]
"""Log keys, (n, 40)."""
Ranks: TypeAlias = NDArray[np.int64]

PUBLIC_KEY_SIZE = 32
LOG_KEY_SIZE = 40
# Compared as memory of a fixed width. Never converted to Python bytes, which would lose trailing zeros.
_ORDER = f"S{LOG_KEY_SIZE}"
_AUTHOR = f"V{PUBLIC_KEY_SIZE}"


def accumulate(lift: Lift, lanes: U64s) -> U64s:
    """Returns the sums before each row and after the last, (n + 1, lane_count)."""
    sums = np.zeros((len(lanes) + 1, lift.lane_count), np.uint64)
    operation = np.bitwise_xor if lift.combine == "xor" else np.add
    for lane in range(lift.lane_count):
        operation.accumulate(lanes[:, lane], out=sums[1:, lane])
    return sums


def join(lift: Lift, lanes: U64s, more: U64s) -> U64s:
    """Combine, row by row, the lanes of two disjoint sets."""
    return lanes ^ more if lift.combine == "xor" else lanes + more


def part(lift: Lift, lanes: U64s, taken: U64s) -> U64s:
    """Remove, row by row, the lanes of a subset from those of its set."""
    return lanes ^ taken if lift.combine == "xor" else lanes - taken


def order(keys: Rows) -> NDArray[np.bytes_]:
    """Returns a view of the keys that numpy can sort, search and compare."""
    view: NDArray[np.bytes_] = np.ascontiguousarray(keys).view(_ORDER).reshape(-1)
    return view


def join_keys(public_keys: bytes, log_ids: Iterable[int] | U64s) -> Rows:
    """Returns log keys, built from concatenated public keys and as many log ids."""
    authors = np.frombuffer(public_keys, np.uint8).reshape(-1, PUBLIC_KEY_SIZE)
    keys = np.empty((len(authors), LOG_KEY_SIZE), np.uint8)
    keys[:, :PUBLIC_KEY_SIZE] = authors
    numbers = log_ids if isinstance(log_ids, np.ndarray) else np.array(list(log_ids), np.uint64)
    keys[:, PUBLIC_KEY_SIZE:] = numbers.astype(">u8").view(np.uint8).reshape(-1, 8)
    return keys


def log_ids(keys: Rows) -> U64s:
    """The log id of each key."""
    numbers = np.ascontiguousarray(keys[:, PUBLIC_KEY_SIZE:]).view(">u8").reshape(-1)
    return numbers.astype(np.uint64)


def authors(keys: Rows) -> list[bytes]:
    """Returns the public key of each log key, always 32 bytes, trailing zeros included."""
    public_keys: list[bytes] = (
        np.ascontiguousarray(keys[:, :PUBLIC_KEY_SIZE]).view(_AUTHOR).reshape(-1).tolist()
    )
    return public_keys


def lift_rows(lift: Lift, salt: bytes, keys: Rows, heights: U64s) -> U64s:
    """The lanes of each log at its height, (n, lane_count)."""
    return lift_many(lift, keys[:, :PUBLIC_KEY_SIZE], log_ids(keys), heights, salt)


def no_keys() -> Rows:
    """Returns an empty array of keys, (0, 40)."""
    return np.empty((0, LOG_KEY_SIZE), np.uint8)


def numbers(values: Any) -> U64s:
    """Convert values to unsigned 64-bit numbers."""
    return np.asarray(values, np.uint64)


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Logs sorted by key, with their heights and the sums before each, under one lift and salt."""

    keys: Rows
    heights: U64s
    sums: U64s

    @classmethod
    def of(cls, lift: Lift, salt: bytes, keys: Rows, heights: U64s) -> Columns:
        """Build columns from keys that are sorted and distinct."""
        return cls(keys, heights, accumulate(lift, lift_rows(lift, salt, keys, heights)))

    @classmethod
    def empty(cls, lift: Lift) -> Columns:
        """Returns columns without logs."""
        return cls(no_keys(), numbers([]), np.zeros((1, lift.lane_count), np.uint64))

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def order(self) -> NDArray[np.bytes_]:
        """View of the keys that numpy can search in."""
        return order(self.keys)

    def lanes(self, lift: Lift) -> U64s:
        """Compute the lanes of each row from the sums."""
        return part(lift, self.sums[1:], self.sums[:-1])

    def find(self, keys: NDArray[np.bytes_]) -> tuple[Ranks, NDArray[np.bool_]]:
        """Returns the number of rows before each key, and whether the next row is this log."""
        own = self.order
        places = np.searchsorted(own, keys)
        is_present = np.zeros(len(keys), np.bool_)
        inside = places < len(own)
        is_present[inside] = own[places[inside]] == keys[inside]
        return places, is_present

    def relifted(self, lift: Lift, salt: bytes) -> Columns:
        """Returns columns of these logs under another lift or salt."""
        return Columns.of(lift, salt, self.keys, self.heights)


def sorted_rows(keys: Rows, heights: U64s) -> tuple[Rows, U64s]:
    """Sort rows by key. A log that occurs more than once keeps its greatest height."""
    sortable = order(keys)
    if (sortable[1:] > sortable[:-1]).all():
        return np.ascontiguousarray(keys), heights
    by_key = np.lexsort((heights, sortable))
    ordered, own_heights = np.ascontiguousarray(keys[by_key]), heights[by_key]
    sortable = order(ordered)
    last = np.ones(len(sortable), np.bool_)
    last[:-1] = sortable[1:] != sortable[:-1]
    return (ordered, own_heights) if last.all() else (ordered[last], own_heights[last])


def as_items(keys: Rows, heights: U64s) -> list[Item]:
    """Convert rows to items of the sync range."""
    return list(zip(authors(keys), log_ids(keys).tolist(), heights.tolist(), strict=True))
