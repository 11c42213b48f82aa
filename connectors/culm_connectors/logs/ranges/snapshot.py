"""Snapshot of a range index as the ordered set of a reconciliation, with bulk queries.

It refers to immutable columns and an immutable overlay, so creating a snapshot costs nothing. Ranks count
over base and overlay together. `OrderedSet` defines spans on the ring.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from culm_connectors.logs.ranges.columns import (
    Columns,
    Ranks,
    Rows,
    U64s,
    as_items,
    authors,
    join,
    join_keys,
    log_ids,
    numbers,
    order,
    part,
)
from culm_connectors.logs.ranges.overlay import Overlay
from culm_models.lifts import Item, Lift
from culm_models.lifts.vectors import join_items

_FEW = 32
_LOG_KEY = struct.Struct(">32sQ")


class RangeSnapshot:
    """Items of the sync range, with fingerprints under one lift and salt; usable from any thread."""

    __slots__ = ("_added_ranks", "_change_lists", "base", "lift", "overlay", "salt")

    def __init__(self, base: Columns, overlay: Overlay, lift: Lift, salt: bytes = b"") -> None:
        assert len(base) or not len(overlay), "what is laid over nothing belongs in the base"
        self.base = base
        self.overlay = overlay
        self.lift = lift
        self.salt = salt
        self._added_ranks = overlay.ranks
        self._change_lists: tuple[list[int], list[int]] | None = None

    def __len__(self) -> int:
        return len(self.base) + len(self._added_ranks)

    def ranks(self, bounds: Sequence[Item]) -> list[int]:
        """Returns the number of items that sort before each bound; bounds need not be items."""
        if not bounds:
            return []
        public_keys, ids, seq_nums = zip(*bounds, strict=True)
        item_ranks: list[int] = self.ranks_of(
            join_keys(b"".join(public_keys), ids), numbers(seq_nums)
        ).tolist()
        return item_ranks

    def ranks_of(self, keys: Rows, seq_nums: U64s) -> Ranks:
        """Returns the number of items that sort before each bound; the bounds are given as columns."""
        sortable = order(keys)
        places, in_base = self.base.find(sortable)
        ranks = places
        added_places, in_added = None, None
        if len(self._added_ranks):
            added_places, in_added = self.overlay.added.find(sortable)
            ranks = places + added_places
        if seq_nums.any():
            # An item is before a bound of its own log that has a greater sequence number.
            is_item = in_base if in_added is None else in_base | in_added
            at = np.flatnonzero(is_item)
            heights = self.rows(ranks[at])[1]
            ranks = ranks.copy()
            ranks[at] += heights < seq_nums[at]
        return ranks

    def fingerprints(self, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        """Returns the fingerprint of each span in its wire format."""
        if not spans:
            return []
        table = np.array(spans, np.int64)
        lanes = self.lanes(table[:, 0], table[:, 1])
        prefix = np.frombuffer(self.lift.prefix(self.salt), np.uint8)
        values = np.empty((len(table), len(prefix) + self.lift.value_bytes), np.uint8)
        values[:, : len(prefix)] = prefix
        values[:, len(prefix) :] = lanes.astype(">u8").view(np.uint8)
        # Void, not bytes: numpy's bytes lose their last zeros.
        encoded: list[bytes] = values.view(f"V{values.shape[1]}").reshape(-1).tolist()
        return encoded

    def lanes(self, starts: Ranks, sizes: Ranks) -> U64s:
        """Returns the combined lanes of each span, (spans, lane_count)."""
        item_count = len(self)
        ends = starts + sizes
        wraps = ends > item_count
        ends = np.where(wraps, ends - item_count, ends)
        sums = self._sums_before(np.concatenate((starts, ends, (item_count,))))
        before, until, total = sums[: len(starts)], sums[len(starts) : -1], sums[-1]
        lanes = part(self.lift, until, before)
        if wraps.any():
            lanes[wraps] = join(self.lift, lanes[wraps], total)
        return lanes

    def _sums_before(self, ranks: Ranks) -> U64s:
        overlay = self.overlay
        added = np.searchsorted(self._added_ranks, ranks)
        places = ranks - added
        sums: U64s = self.base.sums[places]
        if len(overlay.places):
            sums = join(self.lift, sums, overlay.sums[np.searchsorted(overlay.places, places)])
        if len(overlay.added):
            sums = join(self.lift, sums, overlay.added.sums[added])
        return sums

    def entries_before(self, ranks: Ranks) -> U64s:
        """Returns the total number of entries of the logs before each rank; reads every log."""
        overlay = self.overlay
        added = np.searchsorted(self._added_ranks, ranks)
        places = ranks - added
        heights = self.base.heights.copy()
        heights[overlay.places] = overlay.heights
        entries: U64s = _running(heights)[places] + _running(overlay.added.heights)[added]
        return entries

    def items(self, start: int, size: int) -> list[Item]:
        """Returns the items of a span in ring order, from its start."""
        if size <= _FEW and start + size <= len(self):
            return self._few_items(start, start + size)
        return as_items(*self._span(start, size))

    def _few_items(self, start: int, end: int) -> list[Item]:
        # Called for every leaf of a reconciliation; calls into numpy would cost several times as much.
        if self._change_lists is None:
            self._change_lists = self._added_ranks.tolist(), self.overlay.places.tolist()
        added_ranks, places = self._change_lists
        added = range(bisect_left(added_ranks, start), bisect_left(added_ranks, end))
        first, last = start - added.start, end - added.stop
        rows = _LOG_KEY.iter_unpack(self.base.keys[first:last].tobytes())
        heights = self.base.heights[first:last].tolist()
        for row in range(bisect_left(places, first), bisect_left(places, last)):
            heights[places[row] - first] = int(self.overlay.heights[row])
        items = [(author, log_id, height) for (author, log_id), height in zip(rows, heights, strict=True)]
        for row in added:
            author, log_id = _LOG_KEY.unpack(self.overlay.added.keys[row].tobytes())
            items.insert(added_ranks[row] - start, (author, log_id, int(self.overlay.added.heights[row])))
        return items

    def packed(self, start: int, size: int) -> bytes:
        """Returns the items of a span concatenated, 48 bytes each."""
        keys, heights = self._span(start, size)
        return join_items(keys[:, :32], log_ids(keys), heights).tobytes()

    def bounds(self, ranks: Sequence[int]) -> list[Item]:
        """Returns the items at these ranks as bounds with sequence number 0, which sort before their log."""
        keys, _ = self.rows(np.asarray(ranks, np.int64))
        return [
            (author, log_id, 0) for author, log_id in zip(authors(keys), log_ids(keys).tolist(), strict=True)
        ]

    def _span(self, start: int, size: int) -> tuple[Rows, U64s]:
        ranks = np.arange(start, start + size)
        if start + size > len(self):
            ranks %= max(len(self), 1)
        return self.rows(ranks)

    def rows(self, ranks: Ranks) -> tuple[Rows, U64s]:
        """Returns copies of the keys and heights at these ranks."""
        overlay = self.overlay
        if not len(overlay):
            return self.base.keys[ranks], self.base.heights[ranks]
        added = np.searchsorted(self._added_ranks, ranks)
        places = ranks - added
        is_added = np.zeros(len(ranks), np.bool_)
        if len(overlay.added):
            nearest = np.minimum(added, len(overlay.added) - 1)
            is_added = self._added_ranks[nearest] == ranks
            # An added log behind the last row of the base has no row there to take.
            places = np.minimum(places, len(self.base) - 1)
        keys, heights = self.base.keys[places], self.base.heights[places]
        if len(overlay.places):
            nearest = np.minimum(np.searchsorted(overlay.places, places), len(overlay.places) - 1)
            changed = overlay.places[nearest] == places
            heights[changed] = overlay.heights[nearest[changed]]
        keys[is_added] = overlay.added.keys[added[is_added]]
        heights[is_added] = overlay.added.heights[added[is_added]]
        return keys, heights


def _running(heights: U64s) -> U64s:
    sums = np.zeros(len(heights) + 1, np.uint64)
    np.cumsum(heights, out=sums[1:])
    return sums
