"""Sums of a range index by block. A block is the logs of one schema with equal first key bits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from culm_connectors.logs.ranges.columns import LOG_KEY_SIZE, Ranks, U64s
from culm_connectors.logs.ranges.snapshot import RangeSnapshot

_MAX_BITS = 16


@dataclass(frozen=True, slots=True, eq=False)
class BlockSums:
    """One row per block, in order: number of logs, number of entries, and combined lanes."""

    block_bits: int
    log_counts: NDArray[np.int64]
    entry_counts: U64s
    lanes: U64s

    def __len__(self) -> int:
        return len(self.log_counts)


def block_starts(snapshot: RangeSnapshot, block_bits: int) -> Ranks:
    """Returns the rank at which each block begins, and last the total number of items."""
    assert 0 <= block_bits <= _MAX_BITS, "a block is named by at most two bytes of the key"
    count = 1 << block_bits
    keys = np.zeros((count, LOG_KEY_SIZE), np.uint8)
    firsts = np.arange(count, dtype=np.uint32) << (_MAX_BITS - block_bits)
    keys[:, :2] = firsts.astype(">u2").view(np.uint8).reshape(-1, 2)
    ranks = snapshot.ranks_of(keys, np.zeros(count, np.uint64))
    return np.append(ranks, len(snapshot))


def block_sums(snapshot: RangeSnapshot, block_bits: int) -> BlockSums:
    """Sum up all blocks of a snapshot; takes some milliseconds at a million logs."""
    starts = block_starts(snapshot, block_bits)
    sizes = np.diff(starts)
    entries = snapshot.entries_before(starts)
    return BlockSums(block_bits, sizes, np.diff(entries), snapshot.lanes(starts[:-1], sizes))
