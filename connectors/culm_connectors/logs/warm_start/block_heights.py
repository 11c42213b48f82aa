"""Reads the topic `blocks` for a connector: per schema, the heights of all logs and their input offsets.

It is read once, in a thread, before the ends of `logs` are asked for, so that catching up with `logs`
covers it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from culm_connectors.logs.warm_start.heights import EMPTY, HeightTable
from culm_topics.errors import TopicMissing
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.logs.blocks import Block, Blocks, read_blocks

logger = logging.getLogger(__name__)

Positions = Mapping[int, int]
"""Next offset by partition of `logs`."""


@dataclass(frozen=True, slots=True)
class BlockSpan:
    """One block of a schema: its heights are the `count` rows of the table from row `first`."""

    block: int
    first: int
    count: int
    version: Positions
    fingerprints: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class SchemaHeights:
    """The logs of one schema; `version` is the maximum of its blocks' versions by partition."""

    schema_id: str
    block_bits: int
    table: HeightTable
    blocks: tuple[BlockSpan, ...]
    version: Positions
    torn: frozenset[int]
    """Numbers of the blocks whose heights are unknown."""

    @staticmethod
    def nothing(schema_id: str) -> SchemaHeights:
        """Returns a schema that is not on `blocks`, as a single block."""
        return SchemaHeights(schema_id, 0, EMPTY, (), {}, frozenset())

    def is_covered_by(self, positions: Positions) -> bool:
        """Whether these positions on `logs` are at or behind the input of all blocks."""
        return covers(positions, self.version)


def covers(positions: Positions, version: Positions) -> bool:
    """Whether every offset of `version` has been reached."""
    return all(positions.get(partition, 0) >= offset for partition, offset in version.items())


def read_block_heights(kafka: KafkaSettings, schema_ids: Collection[str]) -> dict[str, SchemaHeights]:
    """Read the heights of these schemas from `blocks`; empty if it is missing, empty or not readable.

    Without them a connector works too, but its start takes longer. Blocking. Raises `KafkaFailure`.
    """
    if not schema_ids:
        return {}
    try:
        readable_blocks = read_blocks(kafka, schema_ids)
    except TopicMissing:
        logger.info("there is no topic `blocks`: all is read from `logs`")
        return {}
    if readable_blocks.passed_over.records:
        logger.error(
            "%d malformed records of `blocks`; their blocks are read from `logs`: %s",
            readable_blocks.passed_over.records,
            "; ".join(readable_blocks.passed_over.first),
        )
    heights = by_schema(readable_blocks)
    if heights:
        logger.info(
            "`blocks` has %d logs of %d schemas in %d blocks (%d records read)",
            sum(len(schema.table) for schema in heights.values()),
            len(heights),
            len(readable_blocks),
            readable_blocks.records,
        )
    else:
        logger.info("`blocks` has nothing of what is served: all is read from `logs` (is its job running?)")
    return heights


def by_schema(readable_blocks: Blocks) -> dict[str, SchemaHeights]:
    """Group blocks by schema, with the heights of each schema in one table."""
    by_schema: dict[str, list[Block]] = {}
    for block in readable_blocks:
        by_schema.setdefault(block.schema_id, []).append(block)
    torn: dict[str, set[int]] = {}
    for name, number in readable_blocks.torn:
        torn.setdefault(name.decode(errors="replace"), set()).add(number)
    return {
        schema_id: _schema(schema_id, blocks, frozenset(torn.get(schema_id, ())))
        for schema_id, blocks in by_schema.items()
    }


def _schema(schema_id: str, blocks: list[Block], torn: frozenset[int]) -> SchemaHeights:
    blocks.sort(key=lambda block: block.block)
    table = HeightTable.from_rows(b"".join(block.heights for block in blocks))
    numbers = table.blocks(blocks[0].block_bits)
    version: dict[int, int] = {}
    parts = []
    for block in blocks:
        first, end = np.searchsorted(numbers, [block.block, block.block + 1]).tolist()
        parts.append(
            BlockSpan(block.block, first, end - first, dict(block.version), dict(block.fingerprints))
        )
        for partition, offset in block.version:
            version[partition] = max(offset, version.get(partition, 0))
    return SchemaHeights(schema_id, blocks[0].block_bits, table, tuple(parts), version, torn)
