"""Produces entries of an index again: log by log, in order, in bounded pieces and at a bounded rate."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from culm_connectors.logs.hub import LogPublisher
from culm_connectors.logs.index import IndexWriter
from culm_connectors.logs.lost_entries.survey import LostPart
from culm_topics.records import split_log_key

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
    """Produce what the index holds of these parts, in the name of `peer_id`, which is this edge's own.

    `produced` is told of each piece that Kafka has acknowledged; a part that is no longer wanted is left.
    Raises ProduceFailed, IndexDamaged.
    """
    for part in parts:
        log = split_log_key(part.key)
        info = index.store.log_info(*log)
        if info is None:
            continue  # it was forgotten meanwhile, to be read anew
        first = part.first
        while first <= part.last and is_wanted(part):
            (pairs,) = await index.read_ranges([(*log, first, part.last)], _PIECE_BYTES)
            if not pairs:
                break
            await publisher.entries_again(log, pairs, info.schema_id, peer_id)
            produced(len(pairs))
            first += len(pairs)
            if entries_per_second is not None:
                await asyncio.sleep(len(pairs) / entries_per_second)
