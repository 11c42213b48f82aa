"""The final contents of peers and topics, compared byte for byte with the signed entries.

The topic `blocks` is compared with the logs. The expected set is every entry that a peer started with or
published live. A forked log counts up to its last common entry: beyond it the branches differ by nature, and
`rejected` must contain the proof.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from culm_infra.demo.p2panda.plan import Fork
from culm_models import lifts
from culm_models.bamboo.log_store import LogKey
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.logs.blocks import Block, read_blocks
from culm_topics.logs.consumer import LogConsumer
from culm_topics.logs.records.blocks import LOG_SIZE, ROW_SIZE
from culm_topics.readers.partitions import read_to_end
from culm_topics.records import RejectedRecord, split_log_key

FORK_CODE = "bamboo.fork"

EntryKey = tuple[bytes, int, int]
"""Public key, log id, sequence number."""
Bytes = tuple[bytes, bytes]
"""Bytes of entry and operation."""


@dataclass(frozen=True, slots=True)
class Holding:
    """Contents of one holder, compared with the expected entries."""

    held: int
    wanted: int
    lost: int
    repeated: int
    differing: int


def compare(
    wanted: Mapping[EntryKey, Bytes], entries: Iterable[tuple[EntryKey, Bytes]], fork: Fork
) -> Holding:
    """Count entries that are missing, repeated, or have other bytes; a fork's branches are left out."""
    seen: Counter[EntryKey] = Counter()
    differing = 0
    for key, data in entries:
        if (key[0], key[1]) == fork.log and key[2] > fork.common:
            continue
        seen[key] += 1
        expected = wanted.get(key)
        differing += expected is not None and expected != data
    return Holding(
        held=len(seen),
        wanted=len(wanted),
        lost=sum(key not in seen for key in wanted),
        repeated=sum(count - 1 for count in seen.values()),
        differing=differing,
    )


def read_logs(kafka: KafkaSettings) -> list[tuple[EntryKey, Bytes]]:
    """Return everything that the topic ``logs`` yields to a new consumer, up to its end."""
    with LogConsumer(kafka, stop_at_end=True) as consumer:
        return [
            ((entry.public_key, entry.log_id, entry.seq_num), (entry.entry_bytes, entry.operation_bytes))
            for entry in consumer
        ]


@dataclass(frozen=True, slots=True)
class RejectedSummary:
    """Contents of ``rejected``: records by code, and the logs that are proven to be forked."""

    by_code: dict[str, int]
    forked: set[LogKey]


def read_rejected(kafka: KafkaSettings) -> RejectedSummary:
    """Read the topic ``rejected`` to its end; a record without both branches does not prove a fork."""
    by_code: Counter[str] = Counter()
    forked: set[LogKey] = set()
    for message in read_to_end(kafka, "rejected"):
        record = RejectedRecord.decode(message.value)
        by_code[record.code] += 1
        if record.code == FORK_CODE and record.entry and record.first and message.key:
            forked.add(split_log_key(message.key))
    return RejectedSummary(dict(by_code), forked)


_KEY_SIZE = 32


@dataclass(frozen=True, slots=True)
class SchemaBlocks:
    """Totals of the blocks of one schema."""

    schema_id: str
    blocks: int
    logs: int
    entries: int


@dataclass(frozen=True, slots=True)
class BlockAudit:
    """Result of the comparison of `blocks` with `logs`.

    ``differing_logs`` have another height in `logs`; ``wrong_fingerprints`` do not match their heights.
    ``ahead_logs`` are those of the differing logs that are higher in `blocks`: once nothing is written any
    more, waiting does not help.
    """

    schemas: tuple[SchemaBlocks, ...]
    differing_logs: int
    wrong_fingerprints: int
    ahead_logs: int = 0


def audit_blocks(kafka: KafkaSettings, heights: Mapping[LogKey, int]) -> BlockAudit:
    """Compare `blocks` with the heights of `logs`."""
    blocks = read_blocks(kafka)
    from_blocks: dict[LogKey, int] = {}
    by_schema: dict[str, list[Block]] = {}
    wrong = 0
    for block in blocks:
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
        sum(height > heights.get(log, 0) for log, height in from_blocks.items()),
    )


def _rows(heights: bytes) -> Iterable[tuple[bytes, int, int]]:
    for start in range(0, len(heights), ROW_SIZE):
        row = heights[start : start + ROW_SIZE]
        log_id = int.from_bytes(row[_KEY_SIZE:LOG_SIZE], "big")
        yield row[:_KEY_SIZE], log_id, int.from_bytes(row[LOG_SIZE:], "big")
