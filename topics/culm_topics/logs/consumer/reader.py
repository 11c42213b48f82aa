"""The Kafka side of the consumer: fetches records and commits positions of the assigned partitions.

The order of a commit: Kafka stores the offsets, then the snapshot is written. After a crash in between, the
snapshot lags behind Kafka, and the records in between are read again to raise the heights.

Changes of the assignment in a group are handled in `rebalance`.
"""

import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from confluent_kafka import KafkaException, Message, TopicPartition

from culm_topics.errors import KafkaFailure, TopicsError
from culm_topics.kafka import clients as kafka
from culm_topics.kafka.acls import reader_group_prefix
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.kafka.origin import Origin
from culm_topics.logs.consumer.assignment import (
    Beginning,
    GroupEnd,
    PartitionState,
    PutOff,
    Start,
    begin,
    commit_metadata,
)
from culm_topics.logs.consumer.commits import AutoCommit, CommitPosition, Commits
from culm_topics.logs.consumer.entry import LogEntry, RebuildProgress
from culm_topics.logs.consumer.fragments import FragmentReader
from culm_topics.logs.consumer.holes import HoleWatch
from culm_topics.logs.consumer.rebalance import Rebalances
from culm_topics.logs.consumer.sequencer import Sequencer
from culm_topics.logs.consumer.snapshot import Snapshot
from culm_topics.readers.batch import Partition
from culm_topics.readers.broker_errors import judge
from culm_topics.readers.topic_watch import TopicWatch

_BATCH_RECORDS = 500
_BATCH_BYTES = 32 * 1024 * 1024


class PartitionReader:
    """Feeds the sequencer from the partitions it holds."""

    def __init__(
        self,
        settings: KafkaSettings,
        sequencer: Sequencer,
        *,
        group_id: str | None,
        state_dir: Path | None,
        start: Start,
        start_at: dict[int, int],
        origin: Origin | None,
        stop_at_end: bool,
        topic_check_seconds: float,
        auto_commit: AutoCommit | None,
        commit_timeout_seconds: float,
        on_rebuild: Callable[[RebuildProgress], None] | None,
        on_revoke: Callable[[tuple[int, ...]], None] | None,
    ) -> None:
        self._topic = settings.topic("logs")
        self._sequencer = sequencer
        self._in_group = group_id is not None
        self._on_rebuild = on_rebuild
        self._watch = TopicWatch(settings, self._topic, interval_seconds=topic_check_seconds)
        self.origin = self._watch.origin
        if origin is not None:
            origin.check(self.origin, what="start_at", remedy="begin again without start_at")
        self._rules = Beginning(
            topic=self._topic,
            origin=self._watch.origin,
            first_partition_count=self._watch.partition_count,
            start=start,
            start_at=start_at,
            in_group=self._in_group,
            stop_at_end=stop_at_end,
        )
        self._snapshot: Snapshot | None = None
        if state_dir is not None:
            assert group_id is not None
            self._snapshot = Snapshot(
                state_dir,
                group_id=group_id,
                topic=self._topic,
                origin=self._watch.origin,
                selection=sequencer.selection.fingerprint(),
            )
        self._partitions: dict[int, PartitionState] = {}
        self._assigned_once = False
        self._last: LogEntry | None = None
        self._buffer: deque[Message] = deque()
        self._rebuilding = False
        self._batch_records = 16
        self._closed = False
        self._client = kafka.consumer(
            settings,
            group_id=group_id or f"{reader_group_prefix(settings)}{uuid.uuid4().hex}",
            defaults={"topic.metadata.refresh.interval.ms": str(max(int(topic_check_seconds * 1000), 10))},
        )
        self._put_off = PutOff(self._client, self._topic)
        self._group_end = GroupEnd(self._client, self._rules)
        self._holes = HoleWatch(self._client, self._topic, self._watch, sequencer, self._partitions)
        self._fragments: FragmentReader | None = None
        if sequencer.sparse is not None:
            self._fragments = FragmentReader(
                settings,
                self._client,
                sequencer,
                sequencer.sparse,
                self._rules,
                topic_check_seconds=topic_check_seconds,
            )
        self._commits = Commits(
            self._client,
            rule=auto_commit if self._in_group else None,
            timeout_seconds=commit_timeout_seconds,
        )
        self._rebalances = Rebalances(self, self._commits, on_revoke)
        if self._in_group:
            self._rebalances.join(self._client, self._topic)
        else:
            self.take_over(range(self._watch.partition_count))

    @property
    def is_assigned(self) -> bool:
        """Whether this reader has its partitions; a member of a group may hold none at present."""
        return self._assigned_once

    @property
    def finished(self) -> bool:
        """Whether, with `stop_at_end`, everything has been read to the end and handed out.

        A member of a group that holds no partition is finished when the group has committed all of them.
        """
        if not self._rules.stop_at_end or not self._assigned_once or self._buffer or self._put_off:
            return False
        if self._rebalances.untaken:
            return False
        if not self._partitions:
            return self._group_end.is_reached
        if self._fragments is not None and not self._fragments.finished:
            return False
        return all(state.finished for state in self._partitions.values())

    def take(self) -> LogEntry | None:
        """Return the next entry from the fetched records, or None."""
        entry = self._sequencer.pull()
        while entry is None and self._buffer:
            entry = self._look_at(self._buffer.popleft())
        if entry is None and self._fragments is not None:
            entry = self._fragments.take()
        if entry is None and self.finished:
            self._holes.give_up_all()
        if entry is not None:
            self._last = entry
            self._commits.count()
        return entry

    def handled(self) -> None:
        """Note that the last entry handed out has been handled: it may be committed."""
        self._last = None

    def fetch(self, timeout_seconds: float) -> None:
        """Fetch more records, once everything fetched before has been taken."""
        assert not self._buffer
        self._watch.poll()
        if self._in_group:
            self._rebalances.take_over_again(self._client, self._topic)
        else:
            self.take_over(range(len(self._partitions), self._watch.partition_count))
        self._settle_rebuild()
        if self._buffer:
            return
        self._holes.check()
        if self._rules.stop_at_end and self._assigned_once and not self._partitions:
            self._group_end.check()
        more = self._fragments is not None and self._fragments.fetch(self._partitions)
        self.consume(0 if more else timeout_seconds)

    def consume(self, timeout_seconds: float) -> None:
        """Fetch records into the buffer; Kafka reports rebalances meanwhile."""
        try:
            # A rebalance within the call drops revoked partitions from the buffer: add the records after it.
            records = self._client.consume(self._batch_records, timeout=timeout_seconds)
        except KafkaException as error:
            raise KafkaFailure(f"{self._topic}: reading: {error.args[0].str()}") from error
        self._buffer.extend(records)
        self._rebalances.raise_failure()
        if size := sum(map(len, records)):  # payloads of bare logs may be of megabytes
            self._batch_records = max(1, min(_BATCH_RECORDS, _BATCH_BYTES * len(records) // size))

    def positions(self) -> dict[int, int]:
        """Return the offset by partition before which everything has been handed out or dropped."""
        positions: dict[int, int] = {}
        for partition, state in self._partitions.items():
            waiting = self._sequencer.early.first_offset(partition) if len(self._sequencer.early) else None
            position = max(state.position, state.deliver_from)
            positions[partition] = position if waiting is None else min(position, waiting)
        return positions

    def remaining_records(self) -> int:
        """Return the number of records between the positions and the ends, if there are ends."""
        return sum(
            max(state.end - state.position, 0) for state in self._partitions.values() if state.end is not None
        )

    def commit(self) -> None:
        """Commit everything handed out, with retries. Raises `CommitFailed`."""
        if not self._in_group:
            raise TopicsError("commit() needs a group_id", hint="keep positions(), and pass them as start_at")
        self.handled()
        self.note_committed(self._rebalances.commit())

    @property
    def commit_is_due(self) -> bool:
        """Whether positions must be committed now."""
        return self._commits.is_due()

    def commit_when_due(self) -> None:
        """Commit handled entries if it is due. Raises `CommitFailed` if attempts failed for too long."""
        if self._commits.is_due():
            offsets = self.uncommitted()
            if self._commits.commit_when_due(offsets):
                self.note_committed(offsets)

    def close(self) -> None:
        """Commit handled entries (with `auto_commit`), leave the group and close.

        Further calls have no effect.
        """
        if self._closed:
            return
        self._closed = True
        self._rebalances.close()
        try:
            offsets = self.uncommitted() if self._commits.rule is not None else {}
            # The last entry, if it was not handled, is held back in Kafka, but not in the heights.
            if self._commits.commit_revoked(offsets) and self._last is None:
                self.note_committed(offsets)
        finally:
            self._client.close()
            if self._fragments is not None:
                self._fragments.close()
            if self._snapshot is not None:
                self._snapshot.close()

    def uncommitted(self) -> dict[Partition, CommitPosition]:
        """Return the positions to commit: those that have moved, up to the last handled entry."""
        positions = self.positions()
        last = self._last
        if last is not None and not last.is_sparse and last.partition in positions:
            positions[last.partition] = min(positions[last.partition], last.offset)
        moved = {
            (self._topic, partition): (
                position,
                commit_metadata(self._watch.topic_id, has_gaps=state.has_gaps),
            )
            for partition, position in positions.items()
            if position != (state := self._partitions[partition]).committed
        }
        return moved | self._fragments.uncommitted(last) if self._fragments is not None else moved

    def note_committed(self, done: Mapping[Partition, CommitPosition]) -> None:
        """Record the committed positions, and save the snapshot."""
        for (topic, partition), (position, _) in done.items():
            if self._fragments is not None and topic == self._fragments.topic:
                self._fragments.note_committed(partition, position)
            elif partition in self._partitions:
                self._partitions[partition].committed = position
        # Not while heights are being raised: they would belong to no offset.
        if self._snapshot is not None and done and not self._rebuilding:
            heights = self._sequencer.heights
            self._snapshot.save(self.positions(), heights.changes())
            heights.forget_changes()

    def _look_at(self, message: Message) -> LogEntry | None:
        error = message.error()
        partition, offset = message.partition(), message.offset()
        if error is not None:
            # The client began to read partitions that are not taken over yet, at a position of its own.
            if partition not in self._rebalances.untaken:
                judge(error, self._topic, self._watch)
            return None
        assert partition is not None and offset is not None
        state = self._partitions.get(partition)
        if state is None or offset < state.position:
            return None  # revoked meanwhile, or fetched again after a pause
        if offset < state.deliver_from:
            state.position = offset + 1
            self._sequencer.learn(
                _bytes(message.key()),
                _bytes(message.value()),
                partition=partition,
                offset=offset,
                in_sequence=state.has_gaps,
            )
            if not state.rebuilding:
                self._report(state)
                self._rebuilding = any(state.rebuilding for state in self._partitions.values())
            return None
        if state.finished:
            return None
        if self._rebuilding or partition in self._put_off:
            self._put_off.add(message, partition)
            return None
        state.position = offset + 1
        return self._sequencer.push(
            _bytes(message.key()),
            _bytes(message.value()),
            partition=partition,
            offset=offset,
            timestamp_ms=message.timestamp()[1],
            learns=state.learns,
            now_s=time.monotonic(),
        )

    def _settle_rebuild(self) -> None:
        if self._rebuilding:
            for state in filter(lambda state: state.rebuilding, self._partitions.values()):
                self._report(state)
            return
        self._buffer.extend(self._put_off.take())

    def _report(self, state: PartitionState) -> None:
        if self._on_rebuild is not None:
            self._on_rebuild(RebuildProgress(state.partition, state.position, state.deliver_from))

    def take_over(self, partitions: Sequence[int]) -> None:
        """Begin to read these partitions."""
        self._assigned_once = True
        if not partitions:
            return
        states = begin(self._client, partitions, self._rules, self._sequencer.heights, self._snapshot)
        if self._fragments is not None:
            self._fragments.add(states)
        self._client.incremental_assign(
            [TopicPartition(self._topic, state.partition, state.position) for state in states]
        )
        self._partitions.update((state.partition, state) for state in states)
        self._rebuilding = any(state.rebuilding for state in self._partitions.values())

    def forget(self, gone: frozenset[int]) -> None:
        """Drop these partitions, which another member holds now."""
        if self._fragments is not None:
            self._fragments.forget(gone)
        for partition in gone:
            self._partitions.pop(partition, None)
        self._buffer = deque(message for message in self._buffer if message.partition() not in gone)
        self._put_off.forget(gone)
        self._rebuilding = any(state.rebuilding for state in self._partitions.values())
        self._sequencer.forget(gone)


def _bytes(data: bytes | str | None) -> bytes | None:
    return data.encode() if isinstance(data, str) else data
