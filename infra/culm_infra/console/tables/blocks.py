"""Blocks of log heights for tables: read from packed records one block at a time, never all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Final

from culm_infra.console.tables.follower import FollowedForm, FollowedTopic
from culm_infra.console.tables.packed import PackedRecords, above
from culm_topics.errors import RecordError
from culm_topics.logs.block_lag import first_row
from culm_topics.logs.blocks import Block, BlockTable, check_name, read_block
from culm_topics.logs.records import ROW_SIZE, BlockKind, ProgressKey, split_block_key
from culm_topics.logs.records.blocks import LOG_SIZE, BlockSummary
from culm_topics.readers.batch import TopicMessage

_MAX_LOOKUPS: Final = 50_000
NAME_AT: Final = 4
"""Position of the set's name in the key of a summary."""


def _check_key(topic: str) -> Callable[[bytes, bytes], None]:
    def check(key: bytes, value: bytes) -> None:
        # A malformed value costs its block, as for every reader; it is found when the block is read.
        parsed = split_block_key(key)
        if not isinstance(parsed, ProgressKey):
            check_name(topic, parsed.name)

    return check


def _without_fingerprints(key: bytes, value: bytes) -> bytes:
    """Shorten the summary of a peer's block: there are many, and tables compare heights."""
    if not value or key[0] != BlockKind.SUMMARY:
        return value
    try:
        return replace(BlockSummary.decode(value), version=(), fingerprints=()).encode()
    except RecordError:
        return value


BLOCKS: Final = FollowedForm("blocks", _check_key("blocks"))
VECTORS: Final = FollowedForm("block-vectors", _check_key("block-vectors"), pack=_without_fingerprints)


@dataclass(slots=True)
class Damage:
    """Blocks that could not be read for an answer."""

    topic: str
    torn: int = 0
    first: str = field(default="")

    @property
    def note(self) -> str | None:
        """A sentence, or None if every block could be read."""
        if not self.torn:
            return None
        why = f", such as {self.first}" if self.first else ""
        return f"{self.torn:,} blocks of {self.topic} cannot be put together{why}"


class BlockRecords:
    """Access to the blocks in a followed topic. For several threads."""

    def __init__(self, topic: FollowedTopic) -> None:
        self.topic = topic
        self.records: PackedRecords = topic.records
        self._bits: tuple[int, int | None] = (-1, None)
        self._total: tuple[int, int | None] = (-1, None)

    def block_bits(self) -> int | None:
        """Return the block bits that are most up to date, or None if there are no blocks."""
        version = self.records.version
        if self._bits[0] != version:
            self._bits = version, self._furthest_bits()
        return self._bits[1]

    def _furthest_bits(self) -> int | None:
        table = BlockTable(topic="blocks")
        progress = bytes((BlockKind.PROGRESS,))
        for key, value in self.records.select(progress, above(progress)):
            table.add(TopicMessage(key, value, 0, 0, 0))
        if (bits := table.furthest_bits()) is not None:
            return bits
        present = self.records.distinct(b"", progress, 1, 1)
        return max((bits[0] for bits in present), default=None)

    def log_count(self, bits: int) -> int:
        """Return the number of logs in all blocks."""
        version = self.records.version
        if self._total[0] != version:
            prefix = bytes((BlockKind.SUMMARY, bits))
            total = 0
            for _, value in self.records.select(prefix, above(prefix)):
                try:
                    total += BlockSummary.decode(value).log_count
                except RecordError:
                    continue
            self._total = version, total
        return self._total[1] or 0

    def in_block(
        self, bits: int, number: int, damage: Damage, wanted: Callable[[bytes], bool] | None = None
    ) -> list[Block]:
        """Return the blocks of all sets with this number, or of those whose names are wanted."""
        prefix = bytes((BlockKind.SUMMARY, bits)) + number.to_bytes(2, "big")
        rows = self.records.select(prefix, above(prefix))
        return self.read((row for row in rows if wanted is None or wanted(row[0][NAME_AT:])), damage)

    def of_sets(self, bits: int, names: Sequence[bytes], damage: Damage) -> Iterator[tuple[int, list[Block]]]:
        """Yield the blocks of some sets by number."""
        prefix = bytes((BlockKind.SUMMARY, bits))
        if len(names) << bits <= _MAX_LOOKUPS:
            for number in range(1 << bits):
                head = prefix + number.to_bytes(2, "big")
                if summaries := self.records.get_all(head + name for name in names):
                    yield number, self.read(summaries, damage)
            return
        rows = self.records.among(prefix, above(prefix), NAME_AT, names)
        for head, group in groupby(rows, key=lambda row: row[0][:NAME_AT]):
            yield int.from_bytes(head[2:], "big"), self.read(group, damage)

    def read(self, summaries: Iterable[tuple[bytes, bytes]], damage: Damage) -> list[Block]:
        """Return the blocks of these summaries; those that cannot be put together are counted."""
        blocks = []
        for raw, value in summaries:
            key = split_block_key(raw)
            assert not isinstance(key, ProgressKey), "summaries have other keys"
            try:
                block = read_block(key, value, lambda chunk: self.records.get(chunk.encode()))
            except RecordError as error:
                damage.first = damage.first or f"block {key.block}: {error}"
                block = None
            if block is None:
                damage.torn += 1
            else:
                blocks.append(block)
        return blocks


def rows_from(block: Block, log: bytes) -> Iterator[tuple[bytes, str, int, int]]:
    """Yield (log key, schema id, height, block) of the rows from a log on."""
    heights = block.heights
    for at in range(first_row(block.heights, log) * ROW_SIZE, len(heights), ROW_SIZE):
        middle = at + LOG_SIZE
        yield (
            heights[at:middle],
            block.schema_id,
            int.from_bytes(heights[middle : at + ROW_SIZE], "big"),
            block.block,
        )
