"""Which hashes a log must remember for the skiplinks to come (Bamboo, "links and entry verification").

Entry `t` stays needed until the last entry whose skiplink names it has come. At any height that leaves a
number of entries that grows with the logarithm of the height.
"""

from bisect import bisect_left
from collections.abc import Callable
from functools import cache, lru_cache

import numpy as np

from culm_models.bamboo import lipmaa, needs_skiplink
from culm_streaming.logs.rows import Array

_SPINE: tuple[int, ...] = tuple((int(3**k) - 1) // 2 for k in range(1, 42))
_MAX_SEQ_NUM = 2**64 - 1
_TABLE_SIZE = 1 << 14


@lru_cache(maxsize=1 << 16)
def last_use(seq_num: int) -> int:
    """The highest sequence number whose skiplink names `seq_num`; 0 when there is none.

    A skiplink spans a spine number, or leads from a spine number to the one before it. An entry right
    behind `seq_num` does not count: its link is the backlink.
    """
    latest = 0
    position = bisect_left(_SPINE, seq_num)
    if position < len(_SPINE) - 1 and _SPINE[position] == seq_num:
        latest = _SPINE[position + 1]
    # A span is smaller than the number that it starts from, so at most the next spine number counts.
    for span in _SPINE[1 : position + 2]:
        source = seq_num + span
        if source > latest and source <= _MAX_SEQ_NUM and lipmaa(source) == seq_num:
            latest = source
    return latest


def prepare() -> None:
    """Make both tables now: a process that forks workers makes them once for all."""
    _table(last_use)
    _table(_target)


def _target(seq_num: int) -> int:
    return lipmaa(seq_num) if needs_skiplink(seq_num) else 0


@cache
def _table(compute: Callable[[int], int]) -> Array:
    """Of the low numbers, made by the first who asks: a quarter of a second, which no import should take."""
    return np.array([0, *map(compute, range(1, _TABLE_SIZE))], np.uint64)


def last_uses(seq_nums: Array) -> Array:
    """`last_use` of every number of an array."""
    return _looked_up(seq_nums, last_use)


def skiplink_targets(seq_nums: Array) -> Array:
    """The number that each entry's skiplink names; 0 where the entry carries none."""
    return _looked_up(seq_nums, _target)


def _looked_up(seq_nums: Array, compute: Callable[[int], int]) -> Array:
    found: Array = _table(compute)[np.minimum(seq_nums, _TABLE_SIZE - 1)]
    for index in np.flatnonzero(seq_nums >= _TABLE_SIZE).tolist():
        found[index] = compute(int(seq_nums[index]))
    return found
