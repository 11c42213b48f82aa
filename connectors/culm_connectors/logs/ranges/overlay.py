"""Changes since the base columns were made: new heights of its logs, and added logs.

Every batch of updates makes a new overlay. An overlay is immutable, so a session keeps the overlay with which
it began. A grown overlay is merged into new base columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from culm_connectors.logs.ranges.columns import (
    Columns,
    Ranks,
    Rows,
    U64s,
    accumulate,
    join,
    lift_rows,
    order,
    part,
)
from culm_models.lifts import Lift


@dataclass(frozen=True, slots=True)
class Updates:
    """New heights of logs, by sorted and distinct keys.

    A height that is not `exact` can only raise the held one. An exact height is set, and 0 removes the log.
    """

    keys: Rows
    heights: U64s
    exact: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.keys)

    def only(self, mask: NDArray[np.bool_]) -> Updates:
        """Returns the updates that the mask selects."""
        return Updates(self.keys[mask], self.heights[mask], self.exact[mask])


@dataclass(frozen=True, slots=True, eq=False)
class Overlay:
    """Changes over base columns: `places` are rows of the base whose log now has another height.

    `sums` are the prefix sums of the lane differences of these rows, as in `Columns`. `before` is, for each
    added log, the number of rows of the base that sort before it.
    """

    places: Ranks
    heights: U64s
    sums: U64s
    added: Columns
    before: Ranks

    @classmethod
    def empty(cls, lift: Lift) -> Overlay:
        """Returns an overlay without changes."""
        none = np.empty(0, np.int64)
        sums = np.zeros((1, lift.lane_count), np.uint64)
        return cls(none, np.empty(0, np.uint64), sums, Columns.empty(lift), none)

    def __len__(self) -> int:
        return len(self.places) + len(self.added)

    @property
    def ranks(self) -> Ranks:
        """Ranks of the added logs among all logs."""
        return self.before + np.arange(len(self.before))

    def differences(self, lift: Lift) -> U64s:
        """Compute the difference that each changed height makes in the lanes."""
        return part(lift, self.sums[1:], self.sums[:-1])

    def relifted(self, base: Columns, lift: Lift, salt: bytes) -> Overlay:
        """Returns these changes under another lift or salt."""
        keys = base.keys[self.places]
        now = lift_rows(lift, salt, keys, self.heights)
        then = lift_rows(lift, salt, keys, base.heights[self.places])
        sums = accumulate(lift, part(lift, now, then))
        return Overlay(self.places, self.heights, sums, self.added.relifted(lift, salt), self.before)


@dataclass(frozen=True, slots=True)
class Applied:
    """An overlay after updates, and the rows of the base to remove, which an overlay cannot express."""

    overlay: Overlay
    removed: Ranks


def apply(lift: Lift, base: Columns, overlay: Overlay, updates: Updates) -> Applied:
    """Apply updates to an overlay; the lift has no salt."""
    places, in_base, added_places, in_added, current_heights = _find(base, overlay, updates.keys)
    heights = np.where(updates.exact, updates.heights, np.maximum(current_heights, updates.heights))

    differs = heights != current_heights
    goes = heights == 0
    changed = differs & in_base & ~goes
    new = differs & ~in_base & ~goes
    gone = differs & in_added & goes

    merged_places, merged_heights, sums = _changed(
        lift, base, overlay, places[changed], heights[changed], updates.keys[changed]
    )
    # An added log whose height changes is removed and added again.
    stays = np.ones(len(overlay.added), np.bool_)
    stays[added_places[gone | (new & in_added)]] = False
    added, before = _added(lift, overlay, stays, updates.keys[new], heights[new], places[new])
    return Applied(
        Overlay(merged_places, merged_heights, sums, added, before), places[differs & in_base & goes]
    )


def changing(base: Columns, overlay: Overlay, updates: Updates) -> Updates:
    """Returns the updates that change a height."""
    current = _find(base, overlay, updates.keys).heights
    return updates.only(np.where(updates.exact, updates.heights != current, updates.heights > current))


class _Found(NamedTuple):
    """Rows of logs in base and overlay, whether they are there, and their heights, 0 if unknown."""

    places: Ranks
    in_base: NDArray[np.bool_]
    added_places: Ranks
    in_added: NDArray[np.bool_]
    heights: U64s


def _find(base: Columns, overlay: Overlay, keys: Rows) -> _Found:
    sortable = order(keys)
    places, in_base = base.find(sortable)
    added_places, in_added = overlay.added.find(sortable)
    heights = np.zeros(len(keys), np.uint64)
    heights[in_base] = _heights_at(base, overlay, places[in_base])
    heights[in_added] = overlay.added.heights[added_places[in_added]]
    return _Found(places, in_base, added_places, in_added, heights)


def _heights_at(base: Columns, overlay: Overlay, places: Ranks) -> U64s:
    heights = base.heights[places]
    if len(overlay.places):
        at = np.minimum(np.searchsorted(overlay.places, places), len(overlay.places) - 1)
        changed = overlay.places[at] == places
        heights[changed] = overlay.heights[at[changed]]
    return heights


def _changed(
    lift: Lift, base: Columns, overlay: Overlay, places: Ranks, heights: U64s, keys: Rows
) -> tuple[Ranks, U64s, U64s]:
    if not len(places):
        return overlay.places, overlay.heights, overlay.sums
    then = part(lift, base.sums[places + 1], base.sums[places])
    differences = part(lift, lift_rows(lift, b"", keys, heights), then)
    nearest = np.minimum(np.searchsorted(places, overlay.places), len(places) - 1)
    stays = places[nearest] != overlay.places
    all_places = np.concatenate((overlay.places[stays], places))
    in_order = np.argsort(all_places, kind="stable")
    all_heights = np.concatenate((overlay.heights[stays], heights))[in_order]
    all_differences = np.concatenate((overlay.differences(lift)[stays], differences))[in_order]
    return all_places[in_order], all_heights, accumulate(lift, all_differences)


def _added(
    lift: Lift, overlay: Overlay, stays: NDArray[np.bool_], keys: Rows, heights: U64s, before: Ranks
) -> tuple[Columns, Ranks]:
    if not len(keys) and stays.all():
        return overlay.added, overlay.before
    already_added = overlay.added
    all_keys = np.concatenate((already_added.keys[stays], keys))
    in_order = np.argsort(order(all_keys), kind="stable")
    all_heights = np.concatenate((already_added.heights[stays], heights))[in_order]
    lanes = np.concatenate((already_added.lanes(lift)[stays], lift_rows(lift, b"", keys, heights)))[in_order]
    columns = Columns(np.ascontiguousarray(all_keys[in_order]), all_heights, accumulate(lift, lanes))
    return columns, np.concatenate((overlay.before[stays], before))[in_order]


def merge(lift: Lift, base: Columns, overlay: Overlay, removed: Ranks | None = None) -> Columns:
    """Merge an overlay into new base columns, without the `removed` rows.

    Takes tens of milliseconds at a million logs, most of it without the interpreter's lock.
    """
    heights, lanes = base.heights.copy(), base.lanes(lift)
    heights[overlay.places] = overlay.heights
    lanes[overlay.places] = join(lift, lanes[overlay.places], overlay.differences(lift))
    keys, before = base.keys, overlay.before
    if removed is not None and len(removed):
        stays = np.ones(len(base), np.bool_)
        stays[removed] = False
        keys, heights, lanes = keys[stays], heights[stays], lanes[stays]
        before = before - np.searchsorted(removed, before)
    if not len(overlay.added):
        return Columns(keys, heights, accumulate(lift, lanes))
    ranks = before + np.arange(len(before))
    old = np.ones(len(keys) + len(ranks), np.bool_)
    old[ranks] = False
    all_keys = np.empty((len(old), keys.shape[1]), np.uint8)
    order(all_keys)[old], all_keys[ranks] = order(keys), overlay.added.keys
    all_heights = np.empty(len(old), np.uint64)
    all_heights[old], all_heights[ranks] = heights, overlay.added.heights
    all_lanes = np.empty((len(old), lift.lane_count), np.uint64)
    all_lanes[old], all_lanes[ranks] = lanes, overlay.added.lanes(lift)
    return Columns(all_keys, all_heights, accumulate(lift, all_lanes))
