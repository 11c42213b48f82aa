"""`chotki.state` read into memory, epoch by epoch (reference 9.2, rule 6).

An epoch's mark stands behind everything of it, in each partition. What was read waits until the same mark has
come in all of them, and counts then: so vectors never run ahead of values. Where compaction took older marks
away, the newest that all partitions still have is the next epoch.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self

from culm_models.chotki.ids import (
    GLOBAL_VECTOR_KEY,
    Id,
    object_key,
    split_object_key,
    split_vector_key,
    vector_key,
)
from culm_models.chotki.log0 import COMMON_FIELDS, REPLICA_CLASS_ID, SYSTEM_SOURCE
from culm_models.chotki.rdx import parse_vector, write_vector
from culm_topics.chotki.objects import FieldTable, Place, object_of
from culm_topics.chotki.records import (
    BlockVectorRecord,
    EpochRecord,
    FieldRecord,
    is_epoch_key,
    is_field_key,
    is_vector_key,
)
from culm_topics.errors import RecordError
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.readers.partitions import TopicPartitions
from culm_topics.readers.topic_watch import TopicWatch
from culm_topics.readers.whole_topic import PassedOver, TopicMessage

STATE_TOPIC: Final = "chotki.state"
_POLL_SECONDS: Final = 0.2
Changed = dict[Id, dict[Place, tuple[int, int]]]
"""Partition and offset by object and field."""
_CHECK_SECONDS: Final = 30.0


@dataclass(slots=True)
class ObjectState:
    """The state of one epoch; epoch 0 is what every fresh replica holds.

    `packets`: up to which offset of each partition of `chotki.packets` everything is in it. `offsets` is by
    partition of `chotki.state` behind the mark.
    """

    table: FieldTable = field(default_factory=FieldTable)
    blocks: dict[Id, dict[int, int]] = field(default_factory=dict)
    epoch: int = 0
    vector: dict[int, int] = field(default_factory=lambda: {SYSTEM_SOURCE: REPLICA_CLASS_ID.pro})
    packets: dict[int, int] = field(default_factory=dict)
    offsets: dict[int, int] = field(default_factory=dict)

    @classmethod
    def fresh(cls) -> Self:
        """Before any epoch."""
        state = cls()
        for key, value in COMMON_FIELDS.items():
            state.table.put(*split_object_key(key), value)
        state.blocks[Id(SYSTEM_SOURCE, 0)] = dict(state.vector)
        return state

    def store(self) -> dict[bytes, bytes]:
        """Key to value as a replica's store has it, the vectors included; in no order."""
        found = {
            object_key(Id(id.src, id.pro + number), letter): value
            for id in self.table.ids()
            for (number, letter), value in self.table.fields(id).items()
        }
        found |= {vector_key(block): write_vector(vector) for block, vector in self.blocks.items()}
        found[GLOBAL_VECTOR_KEY] = write_vector(self.vector)
        return found

    def latest_of(self, src: int) -> int:
        """The last progress of a source that anything in the state tells of, counted yet or not."""
        entries = [self.vector.get(src, 0), *(vector.get(src, 0) for vector in self.blocks.values())]
        return max(entries)


@dataclass(frozen=True, slots=True)
class AppliedEpoch:
    """An epoch that counts now; `changed`: fields with other values than before, and where each was read."""

    epoch: int
    changed: Changed


@dataclass(slots=True)
class _Segment:
    """Records of one partition up to a mark; the last one of a partition has none yet."""

    records: list[TopicMessage] = field(default_factory=list)
    mark: bytes | None = None
    end: int = 0


class EpochStaging:
    """What was read and does not count yet, without Kafka. `state` is what counts."""

    def __init__(self, partitions: int) -> None:
        self.state = ObjectState.fresh()
        self.passed_over = PassedOver(STATE_TOPIC)
        self._staged = [[_Segment()] for _ in range(partitions)]
        self._applied = b""
        """The mark of the epoch that counts."""

    @property
    def waiting(self) -> int:
        """Records that no epoch has come for."""
        return sum(len(segment.records) for segments in self._staged for segment in segments)

    def take(self, record: TopicMessage) -> AppliedEpoch | None:
        """The next record of its partition; the epoch that it completes, if it does."""
        segments = self._staged[record.partition]
        if not is_epoch_key(record.key):
            segments[-1].records.append(record)
            return None
        try:
            mark = EpochRecord.decode(record.value)
        except RecordError as error:
            self.passed_over.add(record, error)
            return None
        segments[-1].mark, segments[-1].end = record.value, record.offset + 1
        segments.append(_Segment())
        if record.value == self._applied:
            # A micro-batch that ran again, of which other partitions were read before: nothing of it is new.
            self._staged[record.partition] = segments[-1:]
            self.state.offsets[record.partition] = record.offset + 1
            return None
        # No older mark can have become common by this one.
        if all(any(one.mark == record.value for one in each) for each in self._staged):
            return self._apply(mark, record.value)
        return None

    def _apply(self, mark: EpochRecord, encoded: bytes) -> AppliedEpoch:
        state = self.state
        changed: Changed = {}
        for partition, segments in enumerate(self._staged):
            last = max(place for place, one in enumerate(segments) if one.mark == encoded)
            for segment in segments[: last + 1]:
                for record in segment.records:
                    self._put(record, changed)
            state.offsets[partition] = segments[last].end
            self._staged[partition] = segments[last + 1 :]
        self._applied = encoded
        state.epoch = mark.epoch
        state.vector = parse_vector(mark.vector)
        state.packets = dict(mark.packets)
        return AppliedEpoch(mark.epoch, changed)

    def _put(self, record: TopicMessage, changed: Changed) -> None:
        key = record.key
        try:
            if is_field_key(key):
                at, letter = split_object_key(key)
                if self.state.table.put(at, letter, FieldRecord.decode(record.value).value):
                    fields = changed.setdefault(object_of(at), {})
                    fields[at.off, letter] = (record.partition, record.offset)
            elif is_vector_key(key) and (block := split_vector_key(key)) is not None:
                vector = BlockVectorRecord.decode(record.value).vector
                self.state.blocks[block] = parse_vector(vector)
            else:
                raise RecordError("chotki.state: a key that is neither a field's nor a vector's")
        except RecordError as error:
            self.passed_over.add(record, error)


class StateReader:
    """Follows `chotki.state` from its beginning. Not for several threads.

    Everything that counts is in memory. Raises `TopicMissing`, `TopicRecreated`, `OffsetOutOfRange`, and
    `KafkaFailure` where the broker fails.
    """

    def __init__(self, settings: KafkaSettings, *, topic_check_seconds: float = _CHECK_SECONDS) -> None:
        self._watch = TopicWatch(settings, settings.topic(STATE_TOPIC), interval_seconds=topic_check_seconds)
        self.origin = self._watch.origin
        self._reader = TopicPartitions(settings, STATE_TOPIC)
        try:
            count = self._watch.partition_count
            self._ends = self._reader.read_from(
                {number: self._reader.range_of(number)[0] for number in range(count)}
            )
        except BaseException:
            self._reader.close()
            raise
        self._staging = EpochStaging(count)

    @property
    def state(self) -> ObjectState:
        """What counts."""
        return self._staging.state

    @property
    def passed_over(self) -> PassedOver:
        """Records that are none."""
        return self._staging.passed_over

    @property
    def waiting(self) -> int:
        """Records behind the last epoch."""
        return self._staging.waiting

    @property
    def is_read(self) -> bool:
        """Whether everything was read that was there at the start."""
        positions = self._reader.positions
        return all(positions[partition] >= end for partition, end in self._ends.items())

    @property
    def is_complete(self) -> bool:
        """Whether the state has reached an epoch beyond everything that was there at the start."""
        offsets = self.state.offsets
        return self.is_read and all(
            end == 0 or offsets.get(partition, 0) >= end for partition, end in self._ends.items()
        )

    def poll(self, timeout_seconds: float) -> list[AppliedEpoch]:
        """Take in what comes, waiting at most so long for the first record; the epochs that count now."""
        self._watch.poll()
        applied = (self._staging.take(record) for record in self._reader.poll(timeout_seconds))
        return [one for one in applied if one is not None]

    def catch_up(self, timeout_seconds: float) -> Iterator[AppliedEpoch]:
        """Read to the ends of now, and on to the epoch that has them; at most so long beyond the reading.

        Afterwards `is_complete` says whether that epoch came: without it, the job was in the middle of one.
        """
        self._ends = {number: self._reader.range_of(number)[1] for number in self._ends}
        deadline_s = time.monotonic() + timeout_seconds
        before = -1
        while not self.is_complete:
            yield from self.poll(_POLL_SECONDS)
            read = sum(self._reader.positions.values())
            if read > before and not self.is_read:
                before, deadline_s = read, time.monotonic() + timeout_seconds
            elif time.monotonic() > deadline_s:
                return

    def close(self) -> None:
        """Close the connection."""
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
