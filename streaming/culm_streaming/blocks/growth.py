"""The heights that have grown, and their effect on the fingerprints: all touched blocks of a shard at once.

Heights are arrays of `HEIGHT`. A touched block is identified by its index in the step's list, its *owner*;
arrays over several blocks are sorted by owner, then log.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from culm_models.lifts import Lift
from culm_models.lifts.vectors import lift_many
from culm_streaming.blocks.rows import Array
from culm_topics.logs.records import ROW_SIZE
from culm_topics.records import LOG_KEY_SIZE, PUBLIC_KEY_SIZE

HEIGHT = np.dtype([("log", "S40"), ("seq_num", ">u8")])
"""A row of a block's heights, in exactly the bytes of the topic.

Code that joins arrays must name this type: numpy would otherwise convert the numbers to the machine's byte
order.
"""
assert HEIGHT.itemsize == ROW_SIZE

_OWNED = np.dtype([("owner", ">u4"), ("log", "V40")])


@dataclass(frozen=True, slots=True)
class OwnedHeights:
    """Heights of several blocks, sorted by owner and log, each log of an owner once."""

    owner: Array
    heights: Array

    def __len__(self) -> int:
        return len(self.heights)

    def only(self, chosen: Array) -> "OwnedHeights":
        """Return the rows that a mask selects."""
        return OwnedHeights(self.owner[chosen], self.heights[chosen])


def owned(pieces: Sequence[Array]) -> OwnedHeights:
    """Return the heights of the owners 0, 1, ..., each sorted by log."""
    sizes = [len(piece) for piece in pieces]
    heights = np.concatenate(pieces, dtype=HEIGHT) if pieces else np.empty(0, HEIGHT)
    return OwnedHeights(np.repeat(np.arange(len(pieces)), sizes), heights)


def split(rows: OwnedHeights, owners: int) -> list[Array]:
    """Return the heights of each owner."""
    ends = np.searchsorted(rows.owner, np.arange(1, owners))
    return np.split(rows.heights, ends)


def merge(lower: OwnedHeights, upper: OwnedHeights) -> OwnedHeights:
    """Return all rows of both; if both have a log, the row of `upper`."""
    kept = lower.only(place_in(upper, lower) < 0)
    owner = np.concatenate((kept.owner, upper.owner))
    heights = np.concatenate((kept.heights, upper.heights), dtype=HEIGHT)
    order = np.lexsort((heights["log"], owner))
    return OwnedHeights(owner[order], heights[order])


def place_in(table: OwnedHeights, wanted: OwnedHeights) -> Array:
    """Return the indexes of the logs of `wanted` in `table`; -1 for logs that it does not contain."""
    if not len(table):
        return np.full(len(wanted), -1)
    keys, asked = _keys(table), _keys(wanted)
    places: Array = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
    places[keys[places] != asked] = -1
    return places


def _keys(rows: OwnedHeights) -> Array:
    """Return owner and log as bytes that sort in the same order."""
    keys = np.empty(len(rows), _OWNED)
    keys["owner"] = rows.owner
    keys["log"] = np.ascontiguousarray(rows.heights["log"]).view("V40")
    sortable: Array = keys.view(f"S{_OWNED.itemsize}")
    return sortable


def grown(rows: OwnedHeights, chunked: OwnedHeights, recent: OwnedHeights) -> tuple[Array, Array]:
    """Return (the rows that exceed the stored height, the stored height of each: 0 for a new log)."""
    stored = np.zeros(len(rows), np.uint64)
    for table in (chunked, recent):  # recent rows override the chunks
        places = place_in(table, rows)
        known = places >= 0
        stored[known] = table.heights["seq_num"][places[known]]
    return rows.heights["seq_num"] > stored, stored


def lanes_of(lift: Lift, logs: Array, seq_nums: Array) -> Array:
    """Return the lanes of items, (n, lane_count)."""
    packed = np.ascontiguousarray(logs).view(np.uint8).reshape(-1, LOG_KEY_SIZE)
    log_ids = np.ascontiguousarray(packed[:, PUBLIC_KEY_SIZE:]).view(">u8").ravel().astype(np.uint64)
    return lift_many(lift, packed[:, :PUBLIC_KEY_SIZE], log_ids, seq_nums.astype(np.uint64))


def lane_changes(lift: Lift, rows: OwnedHeights, stored: Array, owners: int) -> Array:
    """Return the change of each owner's lanes when `rows` replace the stored heights.

    The shape is (owners, lane_count).
    """
    new = lanes_of(lift, rows.heights["log"], rows.heights["seq_num"])
    old = np.zeros_like(new)
    known = stored > 0
    old[known] = lanes_of(lift, rows.heights["log"][known], stored[known])
    changes = np.zeros((owners, lift.lane_count), np.uint64)
    present, starts = np.unique(rows.owner, return_index=True)
    if len(present):
        combine, change = (np.bitwise_xor, new ^ old) if lift.combine == "xor" else (np.add, new - old)
        changes[present] = combine.reduceat(change, starts, axis=0)
    return changes
