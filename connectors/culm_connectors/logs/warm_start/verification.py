"""Verifies block by block that an index holds the logs of `blocks`.

A block contains the heights after a certain input, its version. An index that has read this input holds every
log of the block at that height, or higher if the log has grown since, here or on `logs`. So a lower log is
damage in any case, while a block whose input the index has not read yet proves nothing. Equal fingerprints
show that nothing differs, without reading the logs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from culm_connectors.logs.warm_start.block_heights import BlockSpan, Positions, SchemaHeights, covers
from culm_connectors.logs.warm_start.heights import EMPTY, HeightTable
from culm_models.lifts import DEFAULT
from culm_models.lifts.vectors import combine, lift_many


@dataclass(frozen=True, slots=True)
class BlockDifference:
    """One block in which the index differs from `blocks`, by number of logs.

    `missing` logs are not held at all, and `behind` logs are lower than on `blocks`. Both are damage unless
    the block is `pending`: the index has not read its input yet. `ahead` logs are newer: they are higher than
    on `blocks`, or not there at all. The records of `other` logs contradict each other within the index.
    """

    schema_id: str
    block_bits: int
    block: int
    logs: int
    missing: int
    behind: int
    ahead: int
    other: int = 0
    pending: bool = False

    @property
    def is_damage(self) -> bool:
        """Whether the block needs a repair."""
        return bool(self.other or (not self.pending and (self.missing or self.behind)))


@dataclass(frozen=True, slots=True)
class Verification:
    """Counts of compared items, and the differences. `damaged` are the logs to read from `logs` again."""

    schemas: int = 0
    blocks: int = 0
    logs: int = 0
    differences: tuple[BlockDifference, ...] = ()
    damaged: HeightTable = field(default=EMPTY, repr=False)

    @property
    def is_sound(self) -> bool:
        """Whether nothing is damaged."""
        return not len(self.damaged)

    def joined(self, other: Verification) -> Verification:
        """Combine two results."""
        return Verification(
            self.schemas + other.schemas,
            self.blocks + other.blocks,
            self.logs + other.logs,
            self.differences + other.differences,
            self.damaged.merged(other.damaged),
        )


def verify(
    expected: Iterable[SchemaHeights],
    held_heights: Mapping[str, HeightTable],
    positions: Positions,
    contradictory: Mapping[str, HeightTable] | None = None,
) -> Verification:
    """Compare the blocks of schemas with the heights in the index.

    `positions` are those up to which the index has read `logs`. `contradictory` logs are damaged in any
    case.
    """
    result = Verification()
    for schema in expected:
        schema_result = _verify_schema(
            schema,
            held_heights.get(schema.schema_id, EMPTY),
            positions,
            (contradictory or {}).get(schema.schema_id, EMPTY),
        )
        result = result.joined(schema_result)
    return result


def _verify_schema(
    expected: SchemaHeights, schema_heights: HeightTable, positions: Positions, contradictory: HeightTable
) -> Verification:
    held_blocks = schema_heights.blocks(expected.block_bits)
    other_blocks = contradictory.blocks(expected.block_bits)
    differences: list[BlockDifference] = []
    damaged = contradictory
    for block in expected.blocks:
        first, end = np.searchsorted(held_blocks, [block.block, block.block + 1]).tolist()
        part = HeightTable(schema_heights.logs[first:end], schema_heights.heights[first:end])
        other = int(np.count_nonzero(other_blocks == block.block))
        if not other and _equals(block, part):
            continue
        wanted = HeightTable(
            expected.table.logs[block.first : block.first + block.count],
            expected.table.heights[block.first : block.first + block.count],
        )
        held_heights = part.of(wanted.logs)
        lower = held_heights < wanted.heights
        missing = int(np.count_nonzero(held_heights == 0))
        behind = int(np.count_nonzero(lower)) - missing
        ahead = int(np.count_nonzero(wanted.of(part.logs) < part.heights))
        pending = not covers(positions, block.version)
        if missing or behind or ahead or other:
            differences.append(
                BlockDifference(
                    expected.schema_id,
                    expected.block_bits,
                    block.block,
                    len(wanted),
                    missing,
                    behind,
                    ahead,
                    other,
                    pending,
                )
            )
        if not pending:
            damaged = damaged.merged(wanted.picked(lower))
    known = {block.block for block in expected.blocks}
    for number, count in zip(*np.unique(other_blocks, return_counts=True), strict=True):
        if int(number) not in known:
            differences.append(
                BlockDifference(expected.schema_id, expected.block_bits, int(number), 0, 0, 0, 0, int(count))
            )
    return Verification(1, len(expected.blocks), len(expected.table), tuple(differences), damaged)


def _equals(block: BlockSpan, block_heights: HeightTable) -> bool:
    """Whether the fingerprints are equal. Different logs are mistaken for equal once in 2^64 cases."""
    wanted = block.fingerprints.get(DEFAULT.name)
    if wanted is None or len(block_heights) != block.count:
        return False
    if not block.count:
        return True
    rows = np.frombuffer(block_heights.logs.tobytes(), np.uint8).reshape(-1, 40)
    log_ids = np.ascontiguousarray(rows[:, 32:]).view(">u8").ravel().astype(np.uint64)
    lanes = combine(DEFAULT, lift_many(DEFAULT, rows[:, :32], log_ids, block_heights.heights))
    return DEFAULT.value(lanes) == wanted
