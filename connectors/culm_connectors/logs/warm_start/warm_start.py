"""Start of a connector from `blocks`: serve at once, fill the index meanwhile, verify and repair it.

Heights are claimed as on `blocks` (`claims`) until the index has read all their input. Then every block is
compared with the index, and logs that the index should hold by now but does not are read from `logs` again.
So an index that lost a part of its data is repaired instead of rebuilt.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence

from culm_connectors.kafka import Progress, TopicReader
from culm_connectors.logs.check_pool import EntryChecker
from culm_connectors.logs.index import IndexWriter
from culm_connectors.logs.warm_start.block_heights import Positions, SchemaHeights, read_block_heights
from culm_connectors.logs.warm_start.claims import HeightClaims, table_of
from culm_connectors.logs.warm_start.heights import HeightTable
from culm_connectors.logs.warm_start.repair import repair
from culm_connectors.logs.warm_start.verification import BlockDifference, Verification, verify
from culm_topics.errors import KafkaFailure
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.readers.batch import Partition

logger = logging.getLogger(__name__)

_SHOWN_BLOCKS = 20


class WarmStart:
    """HeightClaims from `blocks` and their verification. `from_start` opens `logs` at its start."""

    def __init__(
        self,
        kafka: KafkaSettings,
        index: IndexWriter,
        pool: EntryChecker,
        from_start: Callable[[], TopicReader],
        progress: Progress | None = None,
    ) -> None:
        self.claims = HeightClaims(index.store.height)
        self.verified_blocks = 0
        self.damaged_logs = 0
        self.repaired_entries = 0
        self._kafka = kafka
        self._index = index
        self._pool = pool
        self._from_start = from_start
        self._progress = progress

    async def claim_heights(self, schema_ids: Collection[str]) -> frozenset[str]:
        """Read `blocks` and claim its heights of these schemas. Returns the newly claimed schemas."""
        wanted = frozenset(schema_ids) - self.claims.schema_ids
        try:
            claimed = await asyncio.to_thread(self._read, wanted)
        except KafkaFailure as error:
            logger.warning("`blocks` cannot be read, so all is read from `logs`: %s", error)
            return frozenset()
        self.claims.claim(claimed)
        return frozenset(claimed)

    def _read(self, schema_ids: frozenset[str]) -> dict[str, SchemaHeights]:
        claimed = read_block_heights(self._kafka, schema_ids)
        for schema_id, schema in claimed.items():
            self._index.store.ranges.raise_heights(schema_id, schema.table.rows())
        return claimed

    async def check(self, ends: Mapping[Partition, int]) -> None:
        """Drop claims beyond the ends of `logs`, asked for later: they belong to another `logs`."""
        strange = self.claims.beyond(positions_of(ends))
        for schema in strange:
            logger.error("`blocks` has more than `logs` holds; it is not used for %s", schema.schema_id)
        await self._drop(strange)

    async def _drop(self, claimed: Sequence[SchemaHeights]) -> None:
        """Drop these claims and show only held entries."""
        schema_ids = [schema.schema_id for schema in claimed]
        self.claims.drop(schema_ids)
        await asyncio.to_thread(self._index.store.ranges.reload, schema_ids)

    async def settle(self, positions: Mapping[Partition, int]) -> None:
        """Verify and repair the schemas that have been read completely, and drop their claims.

        Raises `OffsetLost`, `ConsumeFailed`, `IndexDamaged`.
        """
        if not self.claims.anything:
            return
        reached = positions_of(positions)
        claimed = self.claims.covered_by(reached)
        if not claimed:
            return
        result = await self._verify(claimed, reached)
        self.verified_blocks += result.blocks
        if not result.is_sound and not await self._repair(claimed, result, reached):
            await self._drop(claimed)
        # All claimed entries are held by now: the sync range needs no correction.
        self.claims.drop(schema.schema_id for schema in claimed)
        logger.info("%d logs in %d blocks were compared with `blocks`", result.logs, result.blocks)

    async def _verify(self, claimed: Sequence[SchemaHeights], reached: Positions) -> Verification:
        def compare() -> Verification:
            held_heights = {
                schema.schema_id: table_of(self._index.store, schema.schema_id) for schema in claimed
            }
            return verify(claimed, held_heights, reached)

        return await asyncio.to_thread(compare)

    async def _repair(
        self, claimed: Sequence[SchemaHeights], result: Verification, reached: Positions
    ) -> bool:
        """Read damaged logs again. Returns whether the index is sound now."""
        self.damaged_logs += len(result.damaged)
        log_differences(result)

        def show_again() -> None:
            # Remotes continue to see the claimed heights while the logs are not held.
            for schema in claimed:
                shown = HeightTable(result.damaged.logs, schema.table.of(result.damaged.logs))
                rows = shown.picked(shown.heights > 0).rows()
                self._index.store.ranges.raise_heights(schema.schema_id, rows)

        stored = await repair(
            result.damaged.log_keys(),
            self._index,
            self._pool,
            self._from_start(),
            self._progress,
            show_again,
        )
        self.repaired_entries += stored
        logger.warning("%d logs were read from `logs` again, %d entries", len(result.damaged), stored)
        again = await self._verify(claimed, reached)
        if not again.is_sound:
            # Rebuilding the index from the same `logs` would not change that.
            logger.error(
                "%d logs are higher on `blocks` than `logs` holds them: `blocks` is wrong there",
                len(again.damaged),
            )
        return again.is_sound


def positions_of(offsets: Mapping[Partition, int]) -> dict[int, int]:
    """Returns the offsets of one topic by partition number."""
    return {partition: offset for (_, partition), offset in offsets.items()}


def log_differences(result: Verification) -> None:
    """Log damaged blocks, one line each; only the first `_SHOWN_BLOCKS` if there are more."""
    damaged = [difference for difference in result.differences if difference.is_damage]
    for difference in damaged[:_SHOWN_BLOCKS]:
        logger.warning("index: %s", describe(difference))
    if len(damaged) > _SHOWN_BLOCKS:
        logger.warning("index: %d further blocks differ", len(damaged) - _SHOWN_BLOCKS)


def describe(difference: BlockDifference) -> str:
    """Describe a difference in words."""
    counts = (
        ("missing", difference.missing),
        ("behind", difference.behind),
        ("ahead", difference.ahead),
        ("contradictory", difference.other),
    )
    counted = ", ".join(f"{count} {name}" for name, count in counts if count)
    block = f"block {difference.block} of {difference.schema_id} ({difference.block_bits} bits)"
    return f"{block}: {counted} of {difference.logs} logs"
