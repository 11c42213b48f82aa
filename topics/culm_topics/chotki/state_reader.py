"""`chotki.state` read epoch by epoch (reference 9.2, rule 6).

An epoch's mark stands behind everything of it, in each partition. What was read waits until the same mark has
come in all of them, and counts then: so vectors never run ahead of values. Where compaction took older marks
away, the newest that all partitions still have is the next epoch.
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
    """The state of one epoch; epoch 0 is what every fresh replica holds.

    `table` has the fields. `vector` is the global one. `packets`: up to which offset of each partition of
    `chotki.packets` everything is in it. `offsets` is by partition of `chotki.state` behind the mark.
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
        """The vector of each block, read now."""
        found = ((split_vector_key(key), parse_vector(value)) for key, value in self.table.vectors())
        return {block: vector for block, vector in found if block is not None}

    def store(self) -> dict[bytes, bytes]:
        """Key to value as a replica's store has it, the vectors included; all of it in memory."""
        return {**dict(self.table.store()), GLOBAL_VECTOR_KEY: write_vector(self.vector)}

    def latest_of(self, src: int) -> int:
        """The last progress of a source that anything in the state tells of, counted yet or not."""
        return max([self.vector.get(src, 0), *(vector.get(src, 0) for vector in self.blocks.values())])

    def since(self, offsets: Mapping[int, int]) -> Window:
        """What was read from these offsets on, of other partitions all, and counts."""
        return {place: (offsets.get(place, 0), end) for place, end in self.offsets.items()}


@dataclass(frozen=True, slots=True)
class AppliedEpoch:
    """An epoch that counts now; `window`: where its records lie, those of values that are as before too."""

    epoch: int
    window: Window


class EpochStaging:
    """What was read and does not count yet, without Kafka. `state` is what counts."""

    def __init__(self, partitions: int, file: StateFile | None = None) -> None:
        self._file = file or StateFile()
        self.state = ObjectState(self._file)
        self.passed_over = PassedOver(STATE_TOPIC)
        self._marks: list[dict[bytes, int]] = [{} for _ in range(partitions)]
        """By partition the offset behind each mark that has come."""
        self._joiners = [FieldJoiner() for _ in range(partitions)]
        self._applied = self._file.about("mark") or b""
        """The mark of the epoch that counts."""

    @property
    def waiting(self) -> int:
        """Records that no epoch has come for."""
        return self._file.waiting

    def take(self, record: TopicMessage) -> AppliedEpoch | None:
        """The next record of its partition; the epoch that it completes, if it does."""
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
            # A micro-batch that ran again, of which other partitions were read before: nothing of it is new.
            self._marks[record.partition].clear()
            self._file.unstage(record.partition, record.offset)
            self.state.offsets[record.partition] = self._resume_at(record.partition, record.offset + 1)
            return None
        self._marks[record.partition][record.value] = record.offset + 1
        # No older mark can have become common by this one.
        if all(record.value in marks for marks in self._marks):
            return self._apply(mark, record.value)
        return None

    def _apply(self, mark: EpochRecord, encoded: bytes) -> AppliedEpoch:
        state = self.state
        ends = {place: marks[encoded] for place, marks in enumerate(self._marks)}
        offsets = {place: self._resume_at(place, end) for place, end in ends.items()}
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
        for place, marks in enumerate(self._marks):
            self._marks[place] = {one: end for one, end in marks.items() if end > ends[place]}
        before, self._applied = state.offsets, encoded
        state.epoch, state.vector, state.packets, state.offsets = (
            mark.epoch,
            parse_vector(mark.vector),
            packets,
            offsets,
        )
        return AppliedEpoch(mark.epoch, {place: (before.get(place, 0), end) for place, end in ends.items()})

    def _resume_at(self, partition: int, end: int) -> int:
        """Where reading goes on of which all before this offset counts, but for fields that lack pieces."""
        held_from = self._joiners[partition].held_from
        return end if held_from is None else min(end, held_from)


def _bare_value(key: bytes, value: bytes) -> bytes:
    if is_field_key(key):
        return FieldRecord.decode(value).value
    if is_vector_key(key) and split_vector_key(key) is not None:
        return BlockVectorRecord.decode(value).vector
    raise RecordError("chotki.state: a key that is neither a field's nor a vector's")


class StateReader(Closing):
    """Follows `chotki.state`, from its beginning or from what the file in `state_dir` has of it.

    Memory is bounded (`culm_topics.chotki.state_file`). Raises `TopicMissing`, `TopicRecreated`,
    `OffsetOutOfRange`, `KafkaFailure` where the broker fails, `StateFileFailed`. Not for several threads.
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
        try:
            count = self._watch.partition_count
            self._staging = EpochStaging(count, self._file)
            known = self._staging.state.offsets
            self._ends = self._reader.read_from(
                {number: known.get(number) or self._reader.range_of(number)[0] for number in range(count)}
            )
        except BaseException:
            self.close()
            raise

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
    def remaining(self) -> int:
        """Records to be read of those that were there at the start."""
        positions = self._reader.positions
        return sum(max(0, end - positions[partition]) for partition, end in self._ends.items())

    @property
    def is_read(self) -> bool:
        """Whether everything was read that was there at the start."""
        return self._reader.has_reached(self._ends)

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

    def close(self) -> None:
        """Close the connection and the file: nothing can be asked for any more."""
        self._reader.close()
        self._file.close()
