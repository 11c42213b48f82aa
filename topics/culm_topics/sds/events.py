"""`SdsEventReader`: every event of `sds.events` once, the events of each channel in order.

    with SdsEventReader(settings, ["general"], start="now") as events:
        for found in events:
            print(found.event.kind, found.event.message_id)

Repeated and malformed records are skipped, but no event is: a channel with a missing event is set aside
until the event arrives. A strict reader ends with an error instead (`topics.sds.gap`).
"""

import logging
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Literal

from culm_topics.errors import RecordError
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.readers.batch import PassedOver, TopicMessage
from culm_topics.readers.consumer import TopicConsumer
from culm_topics.readers.partitions import TopicPartitions
from culm_topics.readers.topic_watch import TopicWatch
from culm_topics.sds.event_sequence import ChannelEvent, EventGap, EventSequence
from culm_topics.sds.keys import channel_key, shard_of, split_channel_key
from culm_topics.sds.records import SdsEventRecord

logger = logging.getLogger(__name__)

EventStart = Literal["beginning", "now"]
LOOK_BACK_RECORDS = 1_000
"""Records before the end of a partition that a reader from now on reads to learn the channels' numbers."""
_CLOCK_ALLOWANCE_MS = 60_000
_TOPIC_CHECK_SECONDS = 30.0


class SdsEventReader(TopicConsumer[ChannelEvent]):
    """Iterator of `ChannelEvent`. Not for several threads at once, except `stop()`.

    `channels` restricts the reader to these channels and their partitions. `start` is each channel's first
    event, or the present (then without `after`). `after` is the number of the last event seen, by channel;
    only later events are handed out. `since_ms` avoids reading older records. With `after`, it is the time of
    the last event seen (`time_ms`), since no later event is earlier by its channel's clock; without, a
    channel begins with the first event written at that time or later. With `follow=False` the reader ends at
    the end of the topic when it was opened, or later, when holes that are open there have been filled or
    declared a gap.

    A missing event has `gap_wait_seconds` to arrive, then its channel is set aside until it arrives; other
    channels continue. With `strict` the iteration ends with `EventGap`.

    Raises `TopicMissing`, `KafkaFailure`, `OffsetOutOfRange`, `TopicRecreated`. Memory: about 100 bytes per
    channel.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        channels: Iterable[str] | None = None,
        *,
        start: EventStart = "beginning",
        after: Mapping[str, int] | None = None,
        since_ms: int | None = None,
        follow: bool = True,
        gap_wait_seconds: float = 30.0,
        strict: bool = False,
    ) -> None:
        assert not (after and start == "now"), "no later events exist to resume from"
        super().__init__()
        self._keys = None if channels is None else frozenset(map(channel_key, channels))
        self._sequence = EventSequence(
            after or {}, learns=start == "now" or since_ms is not None, gap_wait_seconds=gap_wait_seconds
        )
        self.passed_over = PassedOver("sds.events")
        self._follow = follow
        self._strict = strict
        self._judge_at: dict[int, int] | None = None
        self._ready: deque[ChannelEvent] = deque()
        self._watch = TopicWatch(
            settings, settings.topic("sds.events"), interval_seconds=_TOPIC_CHECK_SECONDS
        )
        self._reader = TopicPartitions(settings, "sds.events")
        try:
            self._begin(start, since_ms)
        except BaseException:
            self._reader.close()
            raise

    def _begin(self, start: EventStart, since_ms: int | None) -> None:
        count = self._reader.count()
        wanted = (
            range(count)
            if self._keys is None
            else sorted({shard_of(key.decode(), count) for key in self._keys})
        )
        starts: dict[int, int] = {}
        self._deliver_from: dict[int, int] = {}
        for partition in wanted:
            low, high = self._reader.range_of(partition)
            if start == "now":
                starts[partition] = max(low, high - LOOK_BACK_RECORDS)
                self._deliver_from[partition] = high
            elif since_ms is not None:
                since = max(0, since_ms - _CLOCK_ALLOWANCE_MS)
                starts[partition] = max(low, self._reader.offset_at(partition, since))
            else:
                starts[partition] = low
        self._ends = self._reader.read_from(starts)

    @property
    def numbers(self) -> Mapping[str, int]:
        """Number of the last event that was handed out or is ready to be, by channel."""
        return self._sequence.numbers

    @property
    def channels_set_aside(self) -> Mapping[str, EventGap]:
        """The channels that wait for a missing event."""
        return self._sequence.set_aside

    @property
    def finished(self) -> bool:
        """Whether a reader that does not follow has reached its end."""
        return not self._follow and self.at_present and not self._sequence.waits

    @property
    def at_present(self) -> bool:
        """Whether all records that the topic had when it was opened have been handed out."""
        return not self._ready and self._reader.has_reached(self._ends)

    def _take(self) -> ChannelEvent | None:
        return self._ready.popleft() if self._ready else None

    def _close(self) -> None:
        self._reader.close()

    def _fetch(self, timeout_seconds: float) -> None:
        self._watch.poll()
        records = self._reader.poll(timeout_seconds)
        now_s = time.monotonic()
        for record in records:
            with self._gaps_set_aside():
                self._note(record, now_s)
        with self._gaps_set_aside():
            self._judge_holes(now_s)

    @contextmanager
    def _gaps_set_aside(self) -> Iterator[None]:
        try:
            yield
        except EventGap as gap:
            if self._strict:
                raise
            logger.warning("this channel is set aside: %s (%s)", gap, gap.code)

    def _judge_holes(self, now_s: float) -> None:
        """Declare an overdue hole a gap once all records present when it became overdue are read."""
        if not self._sequence.overdue(now_s):
            self._judge_at = None
        elif self._judge_at is None:
            self._judge_at = self._reader.ends()
        elif self._reader.has_reached(self._judge_at):
            self._sequence.check(now_s)

    def _note(self, record: TopicMessage, now_s: float) -> None:
        if self._keys is not None and record.key not in self._keys:
            return
        behind_the_end = record.offset >= self._ends[record.partition]
        if behind_the_end and not self._follow and not self._sequence.waits:
            return
        try:
            event = ChannelEvent(
                split_channel_key(record.key),
                SdsEventRecord.decode(record.value),
                record.partition,
                record.offset,
                record.timestamp_ms,
            )
        except RecordError as error:
            self.passed_over.add(record, error)
            return
        if record.offset < self._deliver_from.get(record.partition, 0):
            self._sequence.skip(event)
        else:
            self._ready.extend(self._sequence.take(event, now_s))
