"""The job `chotki` without Spark and Kafka: topics are lists, and a micro-batch is a call.

`ChotkiTopics` are its inputs, partition by partition; `ChotkiJob` takes from them what a batch is to take,
and its `state` is what a reader of `chotki.state` has.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from culm_models.chotki.ids import GLOBAL_VECTOR_KEY
from culm_models.chotki.packets.live import read_live
from culm_models.chotki.packets.packet import parse
from culm_models.chotki.rdx import parse_vector
from culm_streaming.chotki.epochs import count_epoch, restore_epoch
from culm_streaming.chotki.output_records import OutputStage, OutputTopic, StagedRecord
from culm_streaming.chotki.packing import pack_records
from culm_streaming.chotki.rows import EPOCHS_SHARD, InputTopic, unpack_epoch, unpack_shard
from culm_streaming.chotki.settings import ChotkiStateSettings
from culm_streaming.chotki.step import restore_shard, step
from culm_streaming.stateful.job_state import MemoryState
from culm_topics.chotki.records import (
    BlockVectorRecord,
    CommitRecord,
    Ends,
    EpochRecord,
    FieldJoiner,
    FieldRecord,
    OperandRecord,
    PacketRecord,
    RecordOrigin,
    block_partition,
    epoch_key,
    is_epoch_key,
    is_field_key,
    session_key,
    source_key,
    source_partition,
)

Place = tuple[InputTopic, int]


@dataclass
class ChotkiTopics:
    """What edges have produced."""

    partitions: int = 3
    records: dict[Place, list[tuple[bytes, bytes]]] = field(default_factory=lambda: defaultdict(list))
    written_ms: dict[tuple[Place, int], int] = field(default_factory=dict)
    """By place and offset when a record was written; others are when they are read."""

    def packet(self, origin: RecordOrigin, after: int, packet: bytes) -> None:
        """A live packet."""
        src = read_live(parse(packet), packet).id.src
        partition = (InputTopic.PACKETS, source_partition(src, self.partitions))
        self.records[partition].append((source_key(src), PacketRecord(origin, after, packet).encode()))

    def operand(self, origin: RecordOrigin, key: bytes, operand: bytes) -> None:
        """An operand of a diff, or the vector of a block."""
        partition = (InputTopic.FIELDS, block_partition(key, self.partitions))
        for record in OperandRecord.of(origin, operand):
            self.records[partition].append((key, record.encode()))

    def commit(self, record: CommitRecord) -> None:
        """A diff is whole."""
        key = session_key(record.origin.edge, record.origin.session)
        self.records[InputTopic.COMMITS, 0].append((key, record.encode()))

    def ends(self) -> Ends:
        """Where `chotki.fields` ends now."""
        return tuple(
            (partition, len(self.records[InputTopic.FIELDS, partition]))
            for partition in range(self.partitions)
            if self.records[InputTopic.FIELDS, partition]
        )


class Checkpoint(NamedTuple):
    """The state of every shard, and the offset to go on from in each partition."""

    states: Mapping[int, MemoryState]
    offsets: Mapping[Place, int]


class ChotkiJob:
    """The job over these topics; `state` is `chotki.state` as a reader has it, by key."""

    def __init__(self, topics: ChotkiTopics, settings: ChotkiStateSettings | None = None) -> None:
        self.topics = topics
        self.settings = settings or ChotkiStateSettings(shards=topics.partitions)
        self.state: dict[bytes, bytes] = {}
        self.written: list[StagedRecord] = []
        self.rejected: list[bytes] = []
        self._shards: dict[int, MemoryState] = defaultdict(MemoryState)
        self._offsets: dict[Place, int] = defaultdict(int)

    def run(self, limits: Mapping[Place, int] | None = None, batch_ms: int = 0) -> list[StagedRecord]:
        """One micro-batch: of each partition at most so many records, or all; what was written, by stage."""
        records = self.step(limits, batch_ms)
        self.take(records)
        return records

    def step(self, limits: Mapping[Place, int] | None, batch_ms: int) -> list[StagedRecord]:
        """Run one micro-batch and return its output, which only `take` adds to `state`."""
        packed = defaultdict(list)
        for input_partition in [
            (source, number) for source in InputTopic for number in range(self.topics.partitions)
        ]:
            source, partition = input_partition
            first = self._offsets[input_partition]
            taken = self.topics.records[input_partition][first:]
            taken = taken[: len(taken) if limits is None else limits.get(input_partition, 0)]
            self._offsets[input_partition] += len(taken)
            rows = [
                (
                    key,
                    value,
                    partition,
                    offset,
                    self.topics.written_ms.get((input_partition, offset), batch_ms),
                )
                for offset, (key, value) in enumerate(taken, first)
            ]
            for pack in pack_records(source, rows, self.topics.partitions, "culm."):
                packed[pack.shard].append((pack.place, pack.blob))
        if not packed:
            return []
        records: list[StagedRecord] = []
        for shard, blobs in packed.items():
            if shard == EPOCHS_SHARD:
                records += count_epoch(self._shards[shard], unpack_epoch(blobs), batch_ms, self.settings)
            else:
                records += step(self._shards[shard], shard, unpack_shard(blobs), self.settings)
        records.sort(key=lambda record: record.stage)
        return records

    def checkpoint(self) -> Checkpoint:
        """What the next micro-batch begins with."""
        return Checkpoint({shard: state.copy() for shard, state in self._shards.items()}, dict(self._offsets))

    def go_back_to(self, checkpoint: Checkpoint) -> None:
        """Begin with this again."""
        self._shards.clear()
        for shard, state in checkpoint.states.items():
            self._shards[shard] = state.copy()
        self._offsets = defaultdict(int, checkpoint.offsets)

    def restore(self, partitions: Sequence[Sequence[tuple[bytes, bytes | None]]]) -> None:
        """Begin, without a checkpoint, with the records of `chotki.state`, as `restored_query` does."""
        self._shards.clear()
        self._offsets.clear()
        newest = [dict(records).get(epoch_key(number)) for number, records in enumerate(partitions)]
        marks = [EpochRecord.decode(mark) for mark in newest if mark is not None]
        if len(marks) < len(partitions):
            return
        last = min(marks, key=lambda mark: mark.epoch)
        restore_epoch(self._shards[EPOCHS_SHARD], last)
        for shard, records in enumerate(partitions):
            restore_shard(self._shards[shard], records)
        for source, ends in zip(InputTopic, (last.packets, last.fields, last.commits), strict=True):
            for partition, offset in ends:
                self._offsets[source, partition] = offset

    def take(self, records: Iterable[StagedRecord]) -> None:
        """Read what was written."""
        for record in records:
            self.written.append(record)
            if record.topic is OutputTopic.STATE and record.value is None:
                self.state.pop(record.key, None)
            elif record.topic is OutputTopic.STATE:
                self.state[record.key] = record.value or b""
            elif record.topic is OutputTopic.REJECTED:
                self.rejected.append(record.value or b"")

    def values(self) -> dict[bytes, bytes]:
        """Fields and vectors as a replica's store has them."""
        values = {}
        joiner = FieldJoiner()
        for offset, record in enumerate(self.state.items()):
            whole = None if is_epoch_key(record[0]) else joiner.take(offset, *record)
            if whole is not None and is_field_key(whole[0]):
                values[whole[0]] = FieldRecord.decode(whole[1]).value
            elif whole is not None:
                values[whole[0]] = BlockVectorRecord.decode(whole[1]).vector
        assert not joiner.incomplete, "every field has all pieces that its head names"
        if self.marks:
            values[GLOBAL_VECTOR_KEY] = self.marks[0].vector
        return values

    @property
    def marks(self) -> list[EpochRecord]:
        """The last mark of each partition."""
        return [EpochRecord.decode(value) for key, value in sorted(self.state.items()) if is_epoch_key(key)]

    @property
    def vector(self) -> dict[int, int]:
        """The global vector of the last epoch."""
        return parse_vector(self.marks[0].vector) if self.marks else {}


def fields_of(records: Iterable[StagedRecord]) -> list[bytes]:
    """The keys of the fields among what was written."""
    return [
        record.key
        for record in records
        if record.stage is OutputStage.FIELDS and record.topic is OutputTopic.STATE
    ]
