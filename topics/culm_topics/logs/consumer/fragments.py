"""The topic `fragments` beside the logs: entries with gaps before them, for a reader that requests them.

A reader of partition n of `logs` also reads partition n of `fragments`, which has the fragments of its logs,
so the group's own assignment is enough. A partition of `fragments` is read once its logs have been read to
the end that they had when the reader took it over: entries that joined their log since then are not handed
out as fragments.

The topic is compacted and holds the present state, so it is read from its beginning each time. Records before
the group's committed offset only tell what was seen.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Literal

from confluent_kafka import Consumer

from culm_topics.errors import KafkaSettingsError, RecordError
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.logs.consumer.assignment import Beginning, PartitionState, begin, commit_metadata
from culm_topics.logs.consumer.commits import CommitPosition
from culm_topics.logs.consumer.entry import LogEntry
from culm_topics.logs.consumer.heights import LogHeights
from culm_topics.logs.consumer.problems import LogProblem
from culm_topics.logs.consumer.sequencer import Sequencer
from culm_topics.logs.consumer.sparse import SparseEntries
from culm_topics.logs.records import decode_fragment
from culm_topics.readers.batch import Partition, TopicMessage
from culm_topics.readers.partitions import TopicPartitions, watermarks
from culm_topics.readers.topic_watch import TopicWatch

_BATCH_RECORDS = 500


class FragmentReader:
    """Reads the fragments of the partitions of `logs` that its owner holds. `client` is the group's."""

    def __init__(
        self,
        settings: KafkaSettings,
        client: Consumer,
        sequencer: Sequencer,
        sparse: SparseEntries,
        logs: Beginning,
        *,
        topic_check_seconds: float,
    ) -> None:
        self.topic = settings.topic("fragments")
        self._client = client
        self._sequencer = sequencer
        self._sparse = sparse
        self._logs = logs
        self._watch = TopicWatch(settings, self.topic, interval_seconds=topic_check_seconds)
        if self._watch.partition_count > logs.first_partition_count:
            raise KafkaSettingsError(
                f"{self.topic} has {self._watch.partition_count} partitions, {logs.topic} only "
                f"{logs.first_partition_count}: no reader would read the others",
                hint="give both topics the same number of partitions",
            )
        # Offsets of `logs` have no meaning in this topic.
        start: Literal["beginning", "end"] = "beginning" if logs.start == "beginning" else "end"
        self._rules = replace(logs, topic=self.topic, origin=self._watch.origin, start=start, start_at={})
        self._reading = TopicPartitions(settings, "fragments")
        self._partitions: dict[int, PartitionState] = {}
        self._waiting: dict[int, int] = {}
        """The end of the logs by partition, until they have been read up to it."""
        self._buffer: deque[TopicMessage] = deque()

    def add(self, logs: Iterable[PartitionState]) -> None:
        """Take over these partitions of `logs`. Raises the same errors as `begin`."""
        ends = {
            log_state.partition: log_state.end
            for log_state in logs
            if log_state.partition < self._watch.partition_count
        }
        for state in begin(self._client, tuple(ends), self._rules, LogHeights(), None):
            # A reader that begins at the end also needs to know the existing fragments.
            state.deliver_from = max(state.deliver_from, state.position)
            state.position = self._reading.range_of(state.partition)[0]
            self._partitions[state.partition] = state
            if (end := ends[state.partition]) is None:
                end = watermarks(self._client, self._logs.topic, state.partition)[1]
            self._waiting[state.partition] = end

    def forget(self, gone: frozenset[int]) -> None:
        """Drop partitions that another member holds now."""
        started = {
            partition: at for partition, at in self._reading.positions.items() if partition not in gone
        }
        if started != self._reading.positions:
            self._reading.assign(started)
        for number in gone:
            self._partitions.pop(number, None)
            self._waiting.pop(number, None)
        self._buffer = deque(message for message in self._buffer if message.partition not in gone)

    def fetch(self, logs: Mapping[int, PartitionState]) -> bool:
        """Fetch available records, without waiting for more. Returns whether there are any."""
        self._watch.poll()
        ready = [
            partition
            for partition, end in self._waiting.items()
            if partition in logs and logs[partition].position >= end
        ]
        if ready:
            for number in ready:
                del self._waiting[number]
            starts = {number: self._partitions[number].position for number in ready}
            self._reading.assign({**self._reading.positions, **starts})
        if not self._reading.positions or self._buffer:
            return bool(self._buffer)
        self._buffer.extend(self._reading.poll(0, _BATCH_RECORDS))
        if not self._buffer:
            for number, position in self._reading.positions.items():
                state = self._partitions[number]
                state.position = max(state.position, position)
        return bool(self._buffer)

    def take(self) -> LogEntry | None:
        """Return the next entry from the fetched records, or None."""
        while self._buffer:
            message = self._buffer.popleft()
            state = self._partitions[message.partition]
            if message.offset < state.position or state.finished:
                continue
            state.position = message.offset + 1
            entry = self._entry(message)
            if entry is not None and message.offset >= state.deliver_from:
                return entry
        return None

    @property
    def finished(self) -> bool:
        """Whether everything up to the ends has been processed, if there are ends."""
        if self._buffer or self._waiting:
            return False
        return all(state.finished for state in self._partitions.values())

    def positions(self) -> dict[Partition, int]:
        """Return the offsets before which everything was handed out, for partitions that are being read."""
        return {
            (self.topic, number): max(state.position, state.deliver_from)
            for number, state in self._partitions.items()
            if number not in self._waiting
        }

    def uncommitted(self, last: LogEntry | None) -> dict[Partition, CommitPosition]:
        """Return the positions to commit: those that have moved, up to `last`, which is not handled yet."""
        positions = self.positions()
        if last is not None and last.is_sparse and (self.topic, last.partition) in positions:
            positions[self.topic, last.partition] = last.offset
        metadata = commit_metadata(self._watch.topic_id, has_gaps=False)
        return {
            partition: (position, metadata)
            for partition, position in positions.items()
            if position != self._partitions[partition[1]].committed
        }

    def note_committed(self, partition: int, position: int) -> None:
        """Record that the group's position is committed."""
        if partition in self._partitions:
            self._partitions[partition].committed = position

    def close(self) -> None:
        """Close the connection."""
        self._reading.close()

    def _entry(self, message: TopicMessage) -> LogEntry | None:
        if not message.value:
            return None  # removed: no longer requested
        try:
            flavour, log, seq_num, record = decode_fragment(message.key, message.value)
        except RecordError as error:
            placed = RecordError(f"fragments, partition {message.partition} offset {message.offset}: {error}")
            self._sequencer.problems.add(LogProblem(placed, message.partition, message.offset))
            return None
        key = message.key[:-8]
        if not self._sequencer.selection.takes_key(key):
            return None
        if not self._sparse.add(key, seq_num, message.partition):
            return None
        return LogEntry(
            *log,
            seq_num,
            record.entry,
            b"",
            record.entry_hash,
            "",
            message.partition,
            message.offset,
            message.timestamp_ms,
            flavour,
            is_sparse=True,
        )
