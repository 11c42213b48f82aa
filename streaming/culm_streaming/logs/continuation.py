"""Which logs a micro-batch simply continues: the common case, decided for all logs at once.

The answer is a shortcut, never a rule of its own: whatever is not plainly good is left to `verdicts`.
"""

import numpy as np

from culm_streaming.logs.book import Book
from culm_streaming.logs.pages import ENDED
from culm_streaming.logs.rows import END_OF_LOG, HAS_SKIPLINK, Array
from culm_streaming.logs.skiplinks import skiplink_targets


def simply_continued(book: Book, owners: Array, heads: Array) -> Array:
    """Per row, whether all rows of its log continue it one by one with right links and nothing unusual.

    Rows are sorted by owner and sequence number, all above their log's height.
    """
    if not len(owners):
        return np.zeros(0, bool)
    logs = book.logs
    seq_nums, height = heads["seq_num"], logs["height"][owners]
    is_first = np.concatenate([[True], owners[1:] != owners[:-1]])
    starts = np.flatnonzero(is_first)
    run = np.cumsum(is_first) - 1
    first = starts[run]
    place = np.arange(len(owners))

    good = seq_nums == height + 1 + (place - first).astype(np.uint64)
    # A log without entries has the hash 0, and so has the backlink that a first entry does not carry.
    before = np.roll(heads["hash"], 1, axis=0)
    before[starts] = logs["hash"][owners[starts]]
    good &= (heads["backlink"] == before).all(axis=1)
    schema = np.where((height == 0)[:, None], heads["schema"][first], logs["schema"][owners])
    good &= (heads["schema"] == schema).all(axis=1)
    ended_before = np.roll((heads["flags"] & END_OF_LOG) != 0, 1)
    ended_before[starts] = (logs["flags"][owners[starts]] & ENDED) != 0
    good &= ~ended_before

    with_skiplink = np.flatnonzero((heads["flags"] & HAS_SKIPLINK) != 0)
    if len(with_skiplink):
        target = skiplink_targets(seq_nums[with_skiplink])
        floor = height[with_skiplink]
        in_batch = target > floor
        found, named = book.skiplink_hashes(owners[with_skiplink], target)
        behind = first[with_skiplink] + (target - floor - 1).astype(np.int64)
        found |= in_batch
        behind = np.where(in_batch & (behind >= 0) & (behind < len(owners)), behind, 0)
        named = np.where(in_batch[:, None], heads["hash"][behind], named)
        good[with_skiplink] &= found & (heads["skiplink"][with_skiplink] == named).all(axis=1)
    whole_run: Array = np.logical_and.reduceat(good, starts)
    result: Array = whole_run[run]
    return result
