"""What the topic `blocks` says of the logs, compared with the logs themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from culm_models import lifts
from culm_models.bamboo.log_store import LogKey
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.logs.blocks import Block, read_blocks
from culm_topics.logs.records.blocks import LOG_SIZE, ROW_SIZE

_KEY_SIZE = 32


@dataclass(frozen=True, slots=True)
class SchemaBlocks:
    """The blocks of one schema, counted."""

    schema_id: str
    blocks: int
    logs: int
    entries: int


@dataclass(frozen=True, slots=True)
class BlockAudit:
    """``differing_logs`` have another height in `logs`; ``wrong_fingerprints`` are not of their heights."""

    schemas: tuple[SchemaBlocks, ...]
    differing_logs: int
    wrong_fingerprints: int


def audit_blocks(kafka: KafkaSettings, heights: Mapping[LogKey, int]) -> BlockAudit:
    """Compare `blocks` with the heights that `logs` gives."""
    found = read_blocks(kafka)
    from_blocks: dict[LogKey, int] = {}
    by_schema: dict[str, list[Block]] = {}
    wrong = 0
    for block in found:
        rows = list(_rows(block.heights))
        from_blocks.update(((key, log_id), seq_num) for key, log_id, seq_num in rows)
        by_schema.setdefault(block.schema_id, []).append(block)
        wrong += any(
            lift.value(lift.total(lift.lanes(row) for row in rows)) != block.fingerprints[lift.name]
            for lift in lifts.LIFTS
            if lift.name in block.fingerprints
        )
    return BlockAudit(
        tuple(
            SchemaBlocks(
                schema_id,
                len(blocks),
                sum(block.log_count for block in blocks),
                sum(block.entry_count for block in blocks),
            )
            for schema_id, blocks in sorted(by_schema.items())
        ),
        sum(from_blocks.get(log) != heights.get(log) for log in from_blocks.keys() | heights.keys()),
        wrong,
    )


def _rows(heights: bytes) -> Iterable[tuple[bytes, int, int]]:
    for start in range(0, len(heights), ROW_SIZE):
        row = heights[start : start + ROW_SIZE]
        log_id = int.from_bytes(row[_KEY_SIZE:LOG_SIZE], "big")
        yield row[:_KEY_SIZE], log_id, int.from_bytes(row[LOG_SIZE:], "big")
