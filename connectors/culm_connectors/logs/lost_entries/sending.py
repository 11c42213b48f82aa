"""Produces entries of an index again: log by log, in order, in bounded pieces and at a bounded rate."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from culm_connectors.logs.hub import LogPublisher
from culm_connectors.logs.index import IndexWriter
from culm_connectors.logs.lost_entries.survey import LostPart

_PIECE_BYTES = 256 * 1024


async def produce_again(
    parts: Sequence[LostPart],
    index: IndexWriter,
    publisher: LogPublisher,
    peer_id: bytes,
    *,
    entries_per_second: float | None = None,
    produced: Callable[[int], None] = lambda _: None,
    is_wanted: Callable[[LostPart], bool] = lambda _: True,
) -> None:
    """Produce the entries of these parts that the index holds, under `peer_id`, the id of this edge.

    `produced` receives the entry count of each piece that Kafka acknowledged. Unwanted parts are skipped.
    Raises `ProduceFailed`, `IndexDamaged`.
    """
    for part in parts:
        log = part.log
        info = index.store.log_info(*log)
        if info is None:
            continue  # removed from the index meanwhile, to be read again
        first = part.first
        while first <= part.last and is_wanted(part):
            (pairs,) = await index.read_ranges([(*log, first, part.last)], _PIECE_BYTES)
            if not pairs:
                break
            await publisher.entries_again(part.key, pairs, info.schema_id, peer_id)
            produced(len(pairs))
            first += len(pairs)
            if entries_per_second is not None:
                await asyncio.sleep(len(pairs) / entries_per_second)
