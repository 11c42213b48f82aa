"""Blocks of log heights as the job `blocks` writes them: summaries with chunks, and the job's progress."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xxhash import xxh64_intdigest

from culm_models.lifts import ADD128
from culm_topics.logs.records import (
    BlockHeights,
    BlockKey,
    BlockKind,
    BlockProgress,
    BlockSummary,
    ProgressKey,
    block_of,
)
from culm_topics.records import log_key

BITS = 2
Heights = Mapping[tuple[bytes, int], int]
"""Heights by (public key, log id)."""


def block_records(sets: Mapping[bytes, Heights], *, in_chunks: bool = True) -> Iterator[tuple[bytes, bytes]]:
    """Yield keys and values of the blocks of schemas or peers, and of one shard's progress."""
    for name, heights in sets.items():
        for number in range(1 << BITS):
            rows = [
                (*log, height) for log, height in sorted(heights.items()) if block_of(log[0], BITS) == number
            ]
            if not rows:
                continue
            packed = b"".join(
                log_key(key, log_id) + height.to_bytes(8, "big") for key, log_id, height in rows
            )
            summary = BlockSummary(
                ((0, 1),),
                len(rows),
                sum(height for *_, height in rows),
                (("add128", ADD128.fingerprint(rows)[1:]),),
                chunks=(xxh64_intdigest(packed),) if in_chunks else (),
                recent=b"" if in_chunks else packed,
            )
            if in_chunks:
                yield BlockKey(BlockKind.HEIGHTS, BITS, number, name).encode(), BlockHeights(packed).encode()
            yield BlockKey(BlockKind.SUMMARY, BITS, number, name).encode(), summary.encode()
    yield ProgressKey(BITS, 0).encode(), BlockProgress(1, ((0, 1),)).encode()
