"""Holding back what arrived early: which arrivals stay in the state, and which find no room."""

from collections.abc import Mapping, Sequence

import numpy as np

from culm_streaming.chain.book import Book
from culm_streaming.chain.early import EarlyTotals, encode_early
from culm_streaming.chain.rows import FROM_STATE, HEAD_SIZE, Rows
from culm_streaming.chain.settings import ChainSettings
from culm_streaming.chain.store import ShardStore


def hold_back(
    store: ShardStore,
    book: Book,
    waiting: Mapping[int, Sequence[int]],
    rows: Rows,
    *,
    totals: EarlyTotals,
    settings: ChainSettings,
) -> list[int]:
    """Keep the rows of `waiting` (owner to row numbers, lowest sequence number first) in the state.

    Owners whose early arrivals have all gone are named with no rows. Returns the rows without room: those
    held already stay, then the lowest sequence numbers come first.
    """
    changed: list[int] = []
    for owner, numbers in sorted(waiting.items()):
        count, size = int(book.logs["early_count"][owner]), int(book.logs["early_bytes"][owner])
        held = sum(1 for number in numbers if rows.heads["flags"][number] & FROM_STATE)
        if held == len(numbers) == count:
            continue
        totals.add(-count, -size)
        changed.append(owner)
    refused: list[int] = []
    for owner in changed:
        numbers = waiting[owner]
        kept: list[int] = []
        size = 0
        # Stable: within those held already, and within the new ones, the order stays.
        for number in sorted(numbers, key=lambda row: not rows.heads["flags"][row] & FROM_STATE):
            row_size = HEAD_SIZE + len(rows.values[number])
            is_held = bool(rows.heads["flags"][number] & FROM_STATE)
            if not is_held and (
                len(kept) >= settings.max_early_per_log
                or size + row_size > settings.max_early_bytes_per_log
                or not totals.has_room(row_size)
            ):
                refused.append(number)
                continue
            kept.append(number)
            size += row_size
            totals.add(1, row_size)
        kept.sort()
        book.set_early(owner, len(kept), size)
        key = bytes(book.logs["key"][owner].tobytes())
        blob = (
            encode_early(Rows(rows.heads[np.array(kept)], [rows.values[n] for n in kept])) if kept else None
        )
        store.save_early(key, blob)
    return sorted(refused)
