"""The Kafka side of the consumer: partitions come and go, records come in, positions are committed.

The order of a commit: Kafka takes the offsets, then the snapshot is written. After a crash in between, the
snapshot lags behind Kafka, and the records in between are read again to raise the heights.
"""

import time
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from culm_topics import kafka
from culm_topics.acls import reader_group_prefix
from culm_topics.consumer.assignment import (
    Beginning,
    PartitionState,
    Start,
    begin,
    commit_metadata,
    watermarks,
)
from culm_topics.consumer.broker_errors import PASSING
from culm_topics.consumer.entry import LogEntry, RebuildProgress
from culm_topics.consumer.sequencer import Sequencer
from culm_topics.consumer.snapshot import Snapshot
from culm_topics.consumer.topic_watch import TopicWatch
from culm_topics.errors import KafkaFailure, OffsetOutOfRange, TopicsError
from culm_topics.kafka import KafkaSettings

_BATCH_RECORDS = 500
_HOLE_CHECK_SECONDS = 0.5
_OUT_OF_RANGE = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})
_TOPIC_GONE = frozenset(
    {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}
)


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
        stop_at_end: bool,
        topic_check_seconds: float,
        on_rebuild: Callable[[RebuildProgress], None] | None,
        on_revoke: Callable[[tuple[int, ...]], None] | None,
    ) -> None:
        self._topic = settings.topic("logs")
        self._sequencer = sequencer
        self._in_group = group_id is not None
        self._on_rebuild = on_rebuild
        self._on_revoke = on_revoke
        self._watch = TopicWatch(settings, self._topic, interval_seconds=topic_check_seconds)
        self._rules = Beginning(
            topic=self._topic,
            topic_id=self._watch.topic_id,
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
                topic_id=self._watch.topic_id,
                selection=sequencer.selection.fingerprint(),
            )
        self._partitions: dict[int, PartitionState] = {}
        self._assigned_once = False
        self._buffer: deque[Message] = deque()
        self._stash: deque[Message] = deque()
        self._paused: set[int] = set()
        self._rebuilding = False
        self._holes_checked_s = 0.0
        self._closed = False
        self._client = kafka.consumer(
            settings,
            group_id=group_id or f"{reader_group_prefix(settings)}{uuid.uuid4().hex}",
            defaults={"topic.metadata.refresh.interval.ms": str(max(int(topic_check_seconds * 1000), 10))},
        )
        if self._in_group:
            self._client.subscribe(
                [self._topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
            )
        else:
            self._add(range(self._watch.partition_count))

    @property
    def finished(self) -> bool:
        """Whether, with `stop_at_end`, every partition has been read to the end and nothing is left over."""
        return (
            self._assigned_once
            and not self._buffer
            and not self._stash
            and all(state.finished for state in self._partitions.values())
        )

    def take(self) -> LogEntry | None:
        """The next entry out of what has been fetched."""
        entry = self._sequencer.pull()
        while entry is None and self._buffer:
            entry = self._look_at(self._buffer.popleft())
        if entry is None and self.finished and self._sequencer.early.holes:
            raise self._sequencer.gap(self._sequencer.early.holes[0])
        return entry

    def fetch(self, timeout_seconds: float) -> None:
        """Fetch more records, once everything fetched before has been taken."""
        assert not self._buffer
        self._watch.poll()
        if not self._in_group:
            self._add(range(len(self._partitions), self._watch.partition_count))
        self._settle_rebuild()
        if self._buffer:
            return
        self._check_holes()
        try:
            self._buffer.extend(self._client.consume(_BATCH_RECORDS, timeout=timeout_seconds))
        except KafkaException as error:
            raise KafkaFailure(f"{self._topic}: reading: {error.args[0].str()}") from error

    def positions(self) -> dict[int, int]:
        """By partition the offset before which everything has been handed out or dropped."""
        positions: dict[int, int] = {}
        for partition, state in self._partitions.items():
            waiting = self._sequencer.early.first_offset(partition) if len(self._sequencer.early) else None
            position = max(state.position, state.deliver_from)
            positions[partition] = position if waiting is None else min(position, waiting)
        return positions

    def remaining_records(self) -> int:
        """Records between the positions and the ends, where there are ends."""
        return sum(
            max(state.end - state.position, 0) for state in self._partitions.values() if state.end is not None
        )

    def commit(self) -> None:
        """Commit `positions` to Kafka, then write the snapshot."""
        if not self._in_group:
            raise TopicsError("commit() needs a group_id: without one, keep positions() and pass start_at")
        positions = self.positions()
        news = {
            partition: position
            for partition, position in positions.items()
            if position != self._partitions[partition].committed
        }
        if news:
            self._commit_offsets(news)
        # Not while heights are being raised: they would be those of no offset.
        if self._snapshot is not None and news and not self._rebuilding:
            self._snapshot.save(positions, self._sequencer.heights.take_changes())

    def close(self) -> None:
        """Leave the group and close everything; twice is harmless."""
        if self._closed:
            return
        self._closed = True
        self._on_revoke = None
        self._client.close()
        if self._snapshot is not None:
            self._snapshot.close()

    def _commit_offsets(self, news: dict[int, int]) -> None:
        metadata = commit_metadata(self._watch.topic_id)
        try:
            results = self._client.commit(
                offsets=[
                    TopicPartition(self._topic, partition, position, metadata)
                    for partition, position in news.items()
                ],
                asynchronous=False,
            )
        except KafkaException as error:
            raise KafkaFailure(f"{self._topic}: committing positions: {error.args[0].str()}") from error
        for result in results or ():
            if result.error is not None:
                raise KafkaFailure(
                    f"{self._topic} partition {result.partition}: committing: {result.error.str()}"
                )
        for partition, position in news.items():
            self._partitions[partition].committed = position

    def _look_at(self, message: Message) -> LogEntry | None:
        error = message.error()
        if error is not None:
            self._judge_error(error)
            return None
        partition, offset = message.partition(), message.offset()
        assert partition is not None and offset is not None
        state = self._partitions.get(partition)
        if state is None or offset < state.position:
            return None  # given up meanwhile, or fetched a second time after a pause
        place = f"{self._topic} partition {partition} offset {offset}"
        if offset < state.deliver_from:
            self._sequencer.learn(_bytes(message.key()), _bytes(message.value()), partition, place)
            state.position = offset + 1
            if not state.rebuilding:
                self._report(state)
                self._note_rebuild()
            return None
        if state.finished:
            return None
        if self._rebuilding:
            self._put_off(message, partition)
            return None
        entry = self._sequencer.push(
            _bytes(message.key()),
            _bytes(message.value()),
            partition=partition,
            offset=offset,
            timestamp_ms=message.timestamp()[1],
            learns=state.learns,
            now_s=time.monotonic(),
            place=place,
        )
        state.position = offset + 1
        return entry

    def _note_rebuild(self) -> None:
        self._rebuilding = any(state.rebuilding for state in self._partitions.values())

    def _put_off(self, message: Message, partition: int) -> None:
        """Heights are still being raised, perhaps of this very log: nothing is handed out yet."""
        self._stash.append(message)
        if partition not in self._paused:
            self._client.pause([TopicPartition(self._topic, partition)])
            self._paused.add(partition)

    def _settle_rebuild(self) -> None:
        if self._rebuilding:
            for state in self._partitions.values():
                if state.rebuilding:
                    self._report(state)
            return
        if not (self._paused or self._stash):
            return
        self._buffer.extend(self._stash)
        self._stash.clear()
        self._client.resume([TopicPartition(self._topic, partition) for partition in self._paused])
        self._paused.clear()

    def _report(self, state: PartitionState) -> None:
        if self._on_rebuild is not None:
            self._on_rebuild(RebuildProgress(state.partition, state.position, state.deliver_from))

    def _check_holes(self) -> None:
        """A hole is a gap once its time is up and all that was in the topic when it showed has been read."""
        holes = self._sequencer.early.holes
        now_s = time.monotonic()
        if not holes or now_s - self._holes_checked_s < _HOLE_CHECK_SECONDS:
            return
        self._holes_checked_s = now_s
        self._sequencer.release()
        ends: dict[int, int] | None = None
        for hole in holes:
            if hole.ends is None:
                if ends is None:
                    ends = {
                        partition: watermarks(self._client, self._topic, partition)[1]
                        for partition in self._partitions
                    }
                hole.ends = ends
            read = all(
                state.position >= hole.ends.get(partition, 0) for partition, state in self._partitions.items()
            )
            if read and now_s >= hole.deadline_s:
                some = len(self._partitions) < self._watch.partition_count
                raise self._sequencer.gap(
                    hole, "; it may be in a partition that another member of the group reads" if some else ""
                )

    def _add(self, partitions: Sequence[int]) -> None:
        if not partitions:
            return
        states = begin(self._client, partitions, self._rules, self._sequencer.heights, self._snapshot)
        self._client.incremental_assign(
            [TopicPartition(self._topic, state.partition, state.position) for state in states]
        )
        self._partitions.update((state.partition, state) for state in states)
        self._note_rebuild()
        self._assigned_once = True

    def _assigned(self, _client: Any, partitions: list[TopicPartition]) -> None:
        self._assigned_once = True
        self._add([assigned.partition for assigned in partitions])

    def _revoked(self, _client: Any, partitions: list[TopicPartition]) -> None:
        if self._on_revoke is not None:
            self._on_revoke(tuple(revoked.partition for revoked in partitions))
        self._lost(_client, partitions)

    def _lost(self, _client: Any, partitions: list[TopicPartition]) -> None:
        gone = frozenset(lost.partition for lost in partitions)
        for partition in gone:
            self._partitions.pop(partition, None)
        self._paused -= gone
        self._stash = deque(message for message in self._stash if message.partition() not in gone)
        self._note_rebuild()
        self._sequencer.forget(gone)

    def _judge_error(self, error: KafkaError) -> None:
        code = error.code()
        if code in _OUT_OF_RANGE:
            self._watch.check_now()  # a topic created anew has a clearer error
            raise OffsetOutOfRange(
                f"{self._topic}: the position to read from is not in the topic ({error.str()}): records that "
                "were not read yet are gone, or the topic is another one"
            )
        if code in _TOPIC_GONE:
            self._watch.ask_now()
        elif error.fatal() or not (error.retriable() or code in PASSING):
            raise KafkaFailure(f"{self._topic}: {error.str()} ({error.name()})")


def _bytes(data: bytes | str | None) -> bytes | None:
    return data.encode() if isinstance(data, str) else data
