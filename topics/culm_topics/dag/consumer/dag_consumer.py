"""`DagConsumer`: what is published under ids, as it changes, and its content (reference 5.4).

from culm_topics.dag.consumer import DagChangeKind, DagConsumer

with DagConsumer("127.0.0.1:9092") as consumer:
    for change in consumer:
        if change.kind is DagChangeKind.COMPLETE:
            store(change.id, b"".join(consumer.content.file(str(change.published.complete.link))))
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from culm_topics.dag.consumer.ancestry import PublishAncestry
from culm_topics.dag.consumer.changes import DagChange, changes_between
from culm_topics.dag.consumer.content import DEFAULT_CACHE_BYTES, DagContent
from culm_topics.dag.records import PublishedRecord, id_of_key
from culm_topics.errors import RecordError
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.kafka.local import named_kafka
from culm_topics.kafka.origin import Origin
from culm_topics.readers.batch import PassedOver, TopicMessage
from culm_topics.readers.consumer import POLL_SECONDS, TopicConsumer
from culm_topics.readers.partitions import TopicPartitions
from culm_topics.readers.topic_watch import TopicWatch

PUBLISHED_TOPIC: Final = "dag.published"
_BATCH_RECORDS: Final = 200


class DagConsumer(TopicConsumer[DagChange]):
    """Follows `dag.published` and hands out the changes of each id; an iterator of `DagChange`.

    A new tip that does not build on the previous one comes after `superseded` for the previous one: open both
    and publish the merge, if content shall be merged. `ids` restricts which changes are handed out.

    `start_at` (offsets by partition, an earlier `positions()`) with `origin` resumes: changes before it are
    not handed out again. The topic is compacted, so for records that were replaced meanwhile only the outcome
    is handed out. `stop_at_end` ends the iteration at the end that the topic had at the start. `kafka` is as
    in `LogConsumer`; `state_dir` and `cache_bytes` are as in `DagContent`.

    Raises `TopicMissing`, `TopicRecreated`, `OriginChanged`, `KafkaFailure`. Not for several threads, except
    `stop()`.
    """

    def __init__(
        self,
        kafka: KafkaSettings | str | None = None,
        *,
        ids: Collection[bytes] | None = None,
        start_at: Mapping[int, int] | None = None,
        origin: Origin | None = None,
        state_dir: Path | str | None = None,
        cache_bytes: int = DEFAULT_CACHE_BYTES,
        stop_at_end: bool = False,
        topic_check_seconds: float = 30.0,
    ) -> None:
        super().__init__()
        self._settings = named_kafka(kafka)
        self._ids = None if ids is None else frozenset(ids)
        self._start_at = dict(start_at or {})
        self._stop_at_end = stop_at_end
        self._state_dir, self._cache_bytes = state_dir, cache_bytes
        topic = self._settings.topic(PUBLISHED_TOPIC)
        self._watch = TopicWatch(self._settings, topic, interval_seconds=topic_check_seconds)
        if origin is not None:
            origin.check(
                self._watch.origin,
                what="the positions to read changes from",
                remedy="read everything again, without `start_at`",
            )
        self._reader = TopicPartitions(self._settings, PUBLISHED_TOPIC)
        self._ancestry = PublishAncestry(self._settings, self._wants)
        self._content: DagContent | None = None
        self._published: dict[bytes, PublishedRecord] = {}
        self._read: deque[TopicMessage] = deque()
        """Records whose changes are still to be computed: for that, `dag.publishes` may have to be read."""
        self._ready: deque[tuple[DagChange, tuple[int, int]]] = deque()
        self._handed_out: dict[int, int] = {}
        self._ends: dict[int, int] | None = None
        self._is_caught_up = False
        self.passed_over = PassedOver(PUBLISHED_TOPIC)
        """Malformed records; each is skipped on its own."""

    @property
    def origin(self) -> Origin:
        """The cluster and the topic to which `positions()` belong: store it with them."""
        return self._watch.origin

    @property
    def content(self) -> DagContent:
        """Blocks, files and shards; opened at the first use."""
        if self._content is None:
            self._content = DagContent(
                self._settings, state_dir=self._state_dir, cache_bytes=self._cache_bytes
            )
        return self._content

    def published(self) -> Mapping[bytes, PublishedRecord]:
        """Return the present record of each id, as far as records were read."""
        return dict(self._published)

    def positions(self) -> dict[int, int]:
        """Return the offset to resume from, by partition: after the records whose changes were handed out.

        The current change counts as handed out; the other changes of its record are handed out again.
        """
        positions = dict(self._handed_out)
        for _, (partition, offset) in self._ready:
            positions[partition] = min(positions.get(partition, offset), offset)
        return positions

    def load(self) -> Mapping[bytes, PublishedRecord]:
        """Read to the present end without handing out changes. Returns the present record of each id."""
        self._begin()
        ends = self._reader.ends()
        while self._read or not self._reader.has_reached(ends):
            self._fetch(POLL_SECONDS)
            self._ready.clear()
        return self.published()

    @property
    def finished(self) -> bool:
        """Whether `stop_at_end` has reached the end."""
        if not self._stop_at_end or self._ends is None or self._ready or self._read:
            return False
        return self._reader.has_reached(self._ends)

    def _take(self) -> DagChange | None:
        return self._ready.popleft()[0] if self._ready else None

    def _close(self) -> None:
        self._reader.close()
        self._ancestry.close()
        if self._content is not None:
            self._content.close()

    def _wants(self, id: bytes) -> bool:
        return self._ids is None or id in self._ids

    def _begin(self) -> None:
        if self._ends is None:
            # Always from the beginning: changes are computed from the previous records.
            lows = self._reader.starts()
            self._ends = self._reader.read_from(lows)
            self._handed_out = {
                partition: max(low, self._start_at.get(partition, low)) for partition, low in lows.items()
            }

    def _fetch(self, timeout_seconds: float) -> None:
        self._begin()
        self._watch.poll()
        if not self._read:
            messages = self._reader.poll(timeout_seconds, _BATCH_RECORDS)
            if self._stop_at_end and self._ends is not None:
                messages = [message for message in messages if message.offset < self._ends[message.partition]]
            self._read.extend(messages)
            self._is_caught_up = False
        while self._read:
            # If reading for it fails, a program that goes on gets its changes later.
            self._look_at(self._read[0])
            self._read.popleft()
        for partition, position in self._reader.positions.items():
            self._handed_out[partition] = max(self._handed_out[partition], position)

    def _look_at(self, message: TopicMessage) -> None:
        """Compute the changes of the next record."""
        if not self._wants(message.key):
            return
        try:
            id = id_of_key(PUBLISHED_TOPIC, message.key)
            record = PublishedRecord.decode(message.value) if message.value else None
        except RecordError as error:
            self.passed_over.add(message, error)
            return
        if record is None:
            self._published.pop(id, None)
            return
        before = self._published.get(id)
        if not self._is_caught_up and before is not None and before.tip != record.tip:
            self._ancestry.catch_up()
            self._is_caught_up = True
        self._note(message, id, before, record)

    def _note(
        self, message: TopicMessage, id: bytes, before: PublishedRecord | None, record: PublishedRecord
    ) -> None:
        self._published[id] = record
        if message.offset < self._start_at.get(message.partition, 0):
            return
        position = (message.partition, message.offset)
        for change in changes_between(id, before, record, self._ancestry.builds_on):
            self._ready.append((change, position))
