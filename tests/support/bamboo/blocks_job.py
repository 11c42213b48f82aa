"""The job `blocks` without Spark: its shards together, and what a dictionary says of the same input."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import pyarrow as pa
from hypothesis import strategies as st

from culm_models.lifts import ADD128, XOR64, Lift
from culm_streaming.blocks.packing import pack_log_records
from culm_streaming.blocks.rows import HeightSource, unpack_rows
from culm_streaming.blocks.settings import HeightsSettings
from culm_streaming.blocks.step import BlocksOutput, step
from culm_streaming.stateful.job_state import MemoryState
from culm_topics.logs.blocks import BlockTable
from culm_topics.logs.records import LogRecord, block_of
from culm_topics.readers.batch import TopicMessage
from culm_topics.records import log_key

LAYOUT = HeightsSettings(block_bits=3, shards=3, lifts=("add128", "xor64"), chunk_rows=5, recent_rows=4)
SCHEMAS = ("schema_definition_v1", "wörter_0020" + "ab" * 32)
PEERS = (bytes([1] * 32), bytes([7] * 32))
TOPIC = "culm.logs"


@dataclass(frozen=True)
class Told:
    """One record of `logs`: which log, how high, in which schema, and where it stands."""

    public_key: bytes
    log_id: int
    seq_num: int
    schema_id: str
    partition: int = 0
    offset: int = 0

    def record(self) -> tuple[bytes, bytes, int, int]:
        value = LogRecord(self.seq_num, b"entry", b"operation" * 40, bytes(34), self.schema_id)
        return log_key(self.public_key, self.log_id), value.encode(), self.partition, self.offset


public_keys = st.sampled_from([random.Random(n).randbytes(32) for n in range(40)] + [bytes(32), b"\xff" * 32])
told = st.builds(Told, public_keys, st.integers(0, 1), st.integers(1, 300), st.just(SCHEMAS[0]))


def placed(records: Iterable[Told]) -> list[Told]:
    """A log belongs to one schema and one partition; offsets grow."""
    return [
        replace(
            record,
            schema_id=SCHEMAS[(record.public_key[3] + record.log_id) % 2],
            partition=record.public_key[4] % 2,
            offset=offset,
        )
        for offset, record in enumerate(records)
    ]


@dataclass
class World:
    """All shards, and what they have written."""

    layout: HeightsSettings = LAYOUT
    stores: dict[int, MemoryState] = field(default_factory=dict)
    written: dict[HeightSource, list[tuple[bytes, bytes | None]]] = field(
        default_factory=lambda: {source: [] for source in HeightSource}
    )
    refused: list[tuple[bytes, bytes]] = field(default_factory=list)

    def take(self, packed: Iterable[object]) -> list[BlocksOutput]:
        """One micro-batch."""
        by_shard: dict[int, list[tuple[bytes, bytes]]] = {}
        for packed_rows in packed:
            by_shard.setdefault(packed_rows.shard, []).append((packed_rows.rows, packed_rows.rest))  # type: ignore[attr-defined]
        outputs = []
        for shard, rows in sorted(by_shard.items()):
            store = self.stores.setdefault(shard, MemoryState())
            output = step(store, shard, unpack_rows(rows), self.layout)
            for source, records in output.records.items():
                self.written[source] += records
            self.refused += output.refused
            outputs.append(output)
        return outputs

    def take_logs(
        self, *batches: Sequence[tuple[bytes | None, bytes | None, int, int]]
    ) -> list[BlocksOutput]:
        return self.take(
            packed
            for batch in batches
            if batch
            for packed in pack_log_records(arrow(batch), self.layout, TOPIC)
        )

    def table(self, source: HeightSource = HeightSource.LOGS) -> BlockTable:
        table = BlockTable()
        for key, value in self.written[source]:
            table.add(TopicMessage(key, value or b"", 0, 0, 0))
        return table


def arrow(
    records: Sequence[tuple[bytes | None, bytes | None, int, int]],
) -> tuple[pa.Array, pa.Array, pa.Array, pa.Array]:
    keys, values, partitions, offsets = zip(*records, strict=True)
    return (
        pa.array(keys, pa.binary()),
        pa.array(values, pa.binary()),
        pa.array(partitions, pa.int32()),
        pa.array(offsets, pa.int64()),
    )


def expect(world: World, records: Sequence[Told], *, lifts: Sequence[Lift] = (ADD128, XOR64)) -> None:
    """The topic says of every block what a plain dictionary says."""
    highest_told: dict[tuple[str, int], dict[tuple[bytes, int], Told]] = {}
    for record in records:
        heights_block = record.schema_id, block_of(record.public_key, world.layout.block_bits)
        logs = highest_told.setdefault(heights_block, {})
        known = logs.get((record.public_key, record.log_id))
        if known is None or record.seq_num > known.seq_num:
            logs[record.public_key, record.log_id] = record
    table_blocks = world.table().blocks(world.layout.block_bits)
    assert not table_blocks.torn
    assert {(block.schema_id, block.block) for block in table_blocks} == set(highest_told)
    for block in table_blocks:
        logs = highest_told[block.schema_id, block.block]
        rows = [(key, log_id, latest.seq_num) for (key, log_id), latest in sorted(logs.items())]
        assert block.heights == b"".join(
            log_key(key, log_id) + seq_num.to_bytes(8, "big") for key, log_id, seq_num in rows
        )
        assert block.log_count == len(rows)
        assert block.entry_count == sum(seq_num for _, _, seq_num in rows)
        assert {name: bytes(value) for name, value in block.fingerprints.items()} == {
            lift.name: lift.fingerprint(rows)[1:] for lift in lifts
        }
        assert dict(block.version) == {
            partition: max(log.offset for log in logs.values() if log.partition == partition) + 1
            for partition in {log.partition for log in logs.values()}
        }


def cut(records: Sequence[Told], places: Sequence[int]) -> list[list[Told]]:
    ends = sorted({end % (len(records) + 1) for end in places} | {0, len(records)})
    return [list(records[start:end]) for start, end in pairwise(ends)]
