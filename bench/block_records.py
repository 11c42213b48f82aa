"""Blocks of log heights as their jobs would write them, for the cases that read them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from confluent_kafka import Producer
from numpy.typing import NDArray
from xxhash import xxh64_intdigest

from bench.producing import produce
from culm_models.lifts import DEFAULT
from culm_models.lifts.vectors import combine, join_items, lift_many
from culm_topics.logs.records import BlockHeights, BlockKey, BlockKind, BlockSummary

BLOCK_BITS = 8
Version = tuple[tuple[int, int], ...]
"""Offset up to which each partition of `logs` is applied."""


@dataclass(frozen=True, slots=True)
class HeightsOfBlock:
    """Packed heights of the logs of one block, and their fingerprint."""

    block: int
    log_count: int
    packed: bytes
    fingerprint: bytes

    def key(self, kind: BlockKind, name: bytes) -> bytes:
        """Return the key of a record of this block for a schema or a peer."""
        return BlockKey(kind, BLOCK_BITS, self.block, name).encode()


def heights_by_block(keys: NDArray[np.uint8], heights: NDArray[np.uint64]) -> Iterator[HeightsOfBlock]:
    """Yield the blocks of logs with the number 0 of these authors, whose keys are sorted."""
    zeros = np.zeros(len(keys), np.uint64)
    rows, lanes = join_items(keys, zeros, heights), lift_many(DEFAULT, keys, zeros, heights)
    starts = np.searchsorted(keys[:, 0], np.arange((1 << BLOCK_BITS) + 1))
    for block in range(1 << BLOCK_BITS):
        part = slice(starts[block], starts[block + 1])
        if size := int(part.stop - part.start):
            yield HeightsOfBlock(
                block, size, rows[part].tobytes(), DEFAULT.value(combine(DEFAULT, lanes[part]))
            )


def produce_block(
    client: Producer,
    topic: str,
    name: bytes,
    heights: HeightsOfBlock,
    version: Version,
    entry_count: int,
    partition: int,
) -> int:
    """Write a block as one chunk and its summary. Returns the number of records."""
    summary = BlockSummary(
        version,
        heights.log_count,
        entry_count,
        ((DEFAULT.name, heights.fingerprint),),
        chunks=(xxh64_intdigest(heights.packed),),
    )
    chunk = BlockHeights(heights.packed).encode()
    produce(client, topic, heights.key(BlockKind.HEIGHTS, name), chunk, partition)
    produce(client, topic, heights.key(BlockKind.SUMMARY, name), summary.encode(), partition)
    return 2
