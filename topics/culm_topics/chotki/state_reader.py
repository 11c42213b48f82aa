"""Reads `chotki.state` epoch by epoch (reference 9.2, rule 6).

In each partition an epoch's mark follows all records of the epoch. Records are staged until the same mark has
arrived in all partitions, and are then applied: so vectors never run ahead of values. If compaction removed
older marks, the newest mark that all partitions still have is the next epoch.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from culm_models.chotki.ids import GLOBAL_VECTOR_KEY, Id, split_vector_key, vector_key
from culm_models.chotki.log0 import COMMON_FIELDS, REPLICA_CLASS_ID, SYSTEM_SOURCE
from culm_models.chotki.rdx import parse_vector, write_vector
from culm_topics.chotki.errors import StateFileFailed
from culm_topics.chotki.records import (
    BlockVectorRecord,
    EpochRecord,
    FieldJoiner,
    FieldRecord,
    is_epoch_key,
    is_field_key,
    is_vector_key,
)
from culm_topics.chotki.state_file import StateFile, Window, offsets_as_bytes, offsets_of_bytes
from culm_topics.closing import Closing
from culm_topics.errors import RecordError
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.readers.batch import PassedOver, TopicMessage
from culm_topics.readers.partitions import TopicPartitions
from culm_topics.readers.topic_watch import TopicWatch

STATE_TOPIC: Final = "chotki.state"
_POLL_SECONDS: Final = 0.2
_CHECK_SECONDS: Final = 30.0
_FRESH: Final = {SYSTEM_SOURCE: REPLICA_CLASS_ID.pro}


class ObjectState:
    """The state of one epoch; epoch 0 is the state of every fresh replica.

    `table` has the fields. `vector` is the global one. `packets` are the offsets, by partition of
    `chotki.packets`, up to which everything is in it. `offsets` are those after the mark, by partition of
    `chotki.state`.
    """

    def __init__(self, table: StateFile) -> None:
        self.table = table
        kept = table.about("epoch")
        self.epoch = 0 if kept is None else int.from_bytes(kept, "big")
        self.vector = dict(_FRESH) if kept is None else parse_vector(table.about("vector") or b"")
        self.packets = offsets_of_bytes(table.about("packets"))
        self.offsets = offsets_of_bytes(table.about("offsets"))
        if kept is None:
            table.put_all({**COMMON_FIELDS, vector_key(Id(SYSTEM_SOURCE, 0)): write_vector(_FRESH)})

    @property
    def blocks(self) -> dict[Id, dict[int, int]]:
        """The vector of each block, read on each access."""
        vectors = ((split_vector_key(key), parse_vector(value)) for key, value in self.table.vectors())
        return {block: vector for block, vector in vectors if block is not None}

    def store(self) -> dict[bytes, bytes]:
        """Return key to value as in a replica's store, vectors included; all of it in memory."""
        return {**dict(self.table.store()), GLOBAL_VECTOR_KEY: write_vector(self.vector)}

    def latest_of(self, src: int) -> int:
        """Return the last progress of a source in any vector of the state."""
        return max([self.vector.get(src, 0), *(vector.get(src, 0) for vector in self.blocks.values())])

    def since(self, offsets: Mapping[int, int]) -> Window:
        """Return the window of applied records from these offsets on; all records of other partitions."""
        return {partition: (offsets.get(partition, 0), end) for partition, end in self.offsets.items()}


@dataclass(frozen=True, slots=True)
class AppliedEpoch:
    """An applied epoch; `window` has the offsets of its records, including those with unchanged values."""

    epoch: int
    window: Window


class EpochStaging:
    """Records that are read and not applied yet, without Kafka. `state` is the applied state."""

    def __init__(self, partitions: int, file: StateFile | None = None) -> None:
        self._file = file or StateFile()
        self.state = ObjectState(self._file)
        self.passed_over = PassedOver(STATE_TOPIC)
        self._marks: list[dict[bytes, int]] = [{} for _ in range(partitions)]
        """The offset after each mark that has arrived, by partition."""
        self._joiners = [FieldJoiner() for _ in range(partitions)]
        self._applied = self._file.about("mark") or b""
        """The mark of the applied epoch."""

    @property
    def waiting(self) -> int:
        """Number of records whose epoch is not complete."""
        return self._file.waiting

    def take(self, record: TopicMessage) -> AppliedEpoch | None:
        """Add the next record of its partition. Returns the epoch that it completes, or None."""
        try:
            if not is_epoch_key(record.key):
                whole = self._joiners[record.partition].take(record.offset, record.key, record.value)
                if whole is not None:
                    key, value = whole
                    self._file.stage(record.partition, record.offset, key, _bare_value(key, value))
                return None
            mark = EpochRecord.decode(record.value)
        except RecordError as error:
            self.passed_over.add(record, error)
            return None
        self._joiners[record.partition].end_epoch()
        if record.value == self._applied:
            # A micro-batch ran again, and other partitions were read before: nothing in it is new.
            self._marks[record.partition].clear()
            self._file.unstage(record.partition, record.offset)
            self.state.offsets[record.partition] = self._resume_at(record.partition, record.offset + 1)
            return None
        self._marks[record.partition][record.value] = record.offset + 1
        # An older mark cannot become common by this record.
        if all(record.value in marks for marks in self._marks):
            return self._apply(mark, record.value)
        return None

    def drop_staged(self) -> None:
        """Forget what was read after the applied epoch. Read `state.offsets` on again."""
        self._file.drop_staged()
        self._marks = [{} for _ in self._marks]
        self._joiners = [FieldJoiner() for _ in self._joiners]

    def _apply(self, mark: EpochRecord, encoded: bytes) -> AppliedEpoch:
        state = self.state
        ends = {partition: marks[encoded] for partition, marks in enumerate(self._marks)}
        offsets = {partition: self._resume_at(partition, end) for partition, end in ends.items()}
        packets = dict(mark.packets)
        self._file.apply(
            ends,
            {
                "mark": encoded,
                "epoch": mark.epoch.to_bytes(8, "big"),
                "vector": mark.vector,
                "packets": offsets_as_bytes(packets),
                "offsets": offsets_as_bytes(offsets),
            },
        )
        for partition, marks in enumerate(self._marks):
            self._marks[partition] = {
                mark_bytes: end for mark_bytes, end in marks.items() if end > ends[partition]
            }
        before, self._applied = state.offsets, encoded
        state.epoch, state.vector, state.packets, state.offsets = (
            mark.epoch,
            parse_vector(mark.vector),
            packets,
            offsets,
        )
        return AppliedEpoch(
            mark.epoch, {partition: (before.get(partition, 0), end) for partition, end in ends.items()}
        )

    def _resume_at(self, partition: int, end: int) -> int:
        """Return the offset to resume from: `end`, or the first record of an incomplete field before it."""
        held_from = self._joiners[partition].held_from
        return end if held_from is None else min(end, held_from)


def _bare_value(key: bytes, value: bytes) -> bytes:
    if is_field_key(key):
        return FieldRecord.decode(value).value
    if is_vector_key(key) and split_vector_key(key) is not None:
        return BlockVectorRecord.decode(value).vector
    raise RecordError("chotki.state: a key that is neither a field's nor a vector's")


class StateReader(Closing):
    """Follows `chotki.state`, from its beginning or from the position of the file in `state_dir`.

    Memory is bounded (`culm_topics.chotki.state_file`). Raises `TopicMissing`, `TopicRecreated`,
    `OffsetOutOfRange`, `KafkaFailure` if the broker fails, `StateFileFailed`. Not for several threads.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        *,
        state_dir: Path | None = None,
        topic_check_seconds: float = _CHECK_SECONDS,
    ) -> None:
        self._watch = TopicWatch(settings, settings.topic(STATE_TOPIC), interval_seconds=topic_check_seconds)
        self.origin = self._watch.origin
        self._file = StateFile(state_dir, self.origin.encode())
        self._reader = TopicPartitions(settings, STATE_TOPIC)
        self._applied: list[AppliedEpoch] = []
        """Epochs that `poll` has not returned yet, because it failed after them."""
        self._is_reading = True
        try:
            self._count = self._watch.partition_count
            self._staging = EpochStaging(self._count, self._file)
            self._ends = self._reader.read_from(self._starts())
        except BaseException:
            self.close()
            raise

    @property
    def state(self) -> ObjectState:
        """The applied state."""
        return self._staging.state

    @property
    def passed_over(self) -> PassedOver:
        """Malformed records."""
        return self._staging.passed_over

    @property
    def waiting(self) -> int:
        """Number of records after the last epoch."""
        return self._staging.waiting

    @property
    def remaining(self) -> int:
        """Number of offsets left to read until the end at the start, or at the last `catch_up`."""
        return self._reader.remaining(self._ends)

    @property
    def is_read(self) -> bool:
        """Whether everything has been read that the topic had at the start."""
        return self._is_reading and self._reader.has_reached(self._ends)

    @property
    def is_complete(self) -> bool:
        """Whether an applied epoch covers everything that the topic had at the start."""
        offsets = self.state.offsets
        return self.is_read and all(
            end == 0 or offsets.get(partition, 0) >= end for partition, end in self._ends.items()
        )

    def poll(self, timeout_seconds: float) -> list[AppliedEpoch]:
        """Read new records, and wait at most `timeout_seconds` for the first. Returns the applied epochs."""
        self._watch.poll()
        if not self._is_reading:
            self._staging.drop_staged()
            self._reader.assign(self._starts())
            self._is_reading = True
        try:
            for record in self._reader.poll(timeout_seconds):
                if (epoch := self._staging.take(record)) is not None:
                    self._applied.append(epoch)
        except StateFileFailed:
            # SQLite has dropped what was staged: a program that goes on after a full disk reads it again.
            self._is_reading = False
            raise
        applied, self._applied = self._applied, []
        return applied

    def catch_up(self, timeout_seconds: float) -> Iterator[AppliedEpoch]:
        """Read to the present ends, and on to the epoch that covers them; yields the applied epochs.

        Waits at most `timeout_seconds` after the reading. Afterwards `is_complete` tells whether that epoch
        arrived; if not, the job was in the middle of it.
        """
        self._ends = self._reader.ends()
        deadline_s = time.monotonic() + timeout_seconds
        before = -1
        while not self.is_complete:
            yield from self.poll(_POLL_SECONDS)
            read = sum(self._reader.positions.values())
            if read > before and not self.is_read:
                before, deadline_s = read, time.monotonic() + timeout_seconds
            elif time.monotonic() > deadline_s:
                return

    def _starts(self) -> dict[int, int]:
        """Return the offsets to read from: after the applied epoch, or the first ones."""
        known = self.state.offsets
        return {
            number: known.get(number) or self._reader.range_of(number)[0] for number in range(self._count)
        }

    def close(self) -> None:
        """Close the connection and the file: no lookups are possible afterwards."""
        self._reader.close()
        self._file.close()
