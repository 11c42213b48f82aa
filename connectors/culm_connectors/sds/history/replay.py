"""Reads the history of one channel from Kafka: messages of the store and events, page by page, in order.

A page is read in a thread and is bounded in bytes; the caller decides when to read the next one. An offset
that the topic does not have (the topic was created again) means the beginning: receivers tolerate repeated
messages. Kafka clients are reused, because opening one takes longer than reading the history of most
channels.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable, Iterable
from functools import partial
from typing import Final, TypeVar

from culm_connectors.clock import steady_ms
from culm_connectors.rate_limit import LimitedLog
from culm_topics.errors import RecordError
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.readers.batch import TopicMessage
from culm_topics.readers.partitions import TopicPartitions
from culm_topics.sds.event_sequence import ChannelEvent
from culm_topics.sds.keys import channel_key
from culm_topics.sds.records import SdsEventRecord, SdsMessageRecord
from culm_topics.sds.retrieval_hints import StoreHint
from culm_topics.sds.store import StoredMessage

limited = LimitedLog(logging.getLogger(__name__))

Result = TypeVar("Result")

_PAGE_RECORDS: Final = 200
_PAGE_BYTES: Final = 256 * 1024
_POLL_RECORDS: Final = 20
# What one reader holds of what the broker sends ahead; readers are as many as there are turns.
_CLIENT: Final = {
    "fetch.message.max.bytes": str(1024 * 1024),
    "queued.min.messages": "1000",
    "queued.max.messages.kbytes": str(2 * 1024),
    "fetch.wait.max.ms": "10",
    "fetch.queue.backoff.ms": "5",
}
_POLL_S: Final = 0.2
_GAP_WAIT_MS: Final = 60_000
_EARLY_BYTES: Final = 4 * 1024 * 1024
_EVENT_BYTES: Final = 1_024
_IDLE_S: Final = 10.0
"""Seconds that an unused client stays open."""


class PastReaders:
    """Kafka clients that read history, of one topic each; open ones are reused. For one event loop."""

    def __init__(self, kafka: KafkaSettings) -> None:
        self._kafka = kafka
        self._idle: dict[str, dict[TopicPartitions, asyncio.TimerHandle]] = {}
        self._opening = asyncio.Lock()
        self._closing: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def lend(self, topic: str) -> AsyncGenerator[TopicPartitions, None]:
        """Lend a client for the catalogue topic `topic` without an assignment; a client that failed is not
        kept.

        Raises `TopicMissing` and `KafkaFailure`.
        """
        idle = self._idle.setdefault(topic, {})
        reader = self._take(idle)
        if reader is None:
            # One after the other: most pasts are short, and meanwhile a client may have come back.
            async with self._opening:
                reader = self._take(idle) or await self._open(topic)
        is_sound = False
        try:
            yield reader
            is_sound = True
        except (GeneratorExit, asyncio.CancelledError):
            # Whoever read had enough.
            is_sound = True
            raise
        finally:
            if is_sound:
                reader.assign({})
                idle[reader] = asyncio.get_running_loop().call_later(_IDLE_S, self._retire, idle, reader)
            else:
                self._close(reader)

    async def close(self) -> None:
        """Close the clients that are not lent."""
        for idle in self._idle.values():
            for reader, retiring in idle.items():
                retiring.cancel()
                self._close(reader)
            idle.clear()
        if self._closing:
            await asyncio.wait(self._closing)

    async def _open(self, topic: str) -> TopicPartitions:
        reader = TopicPartitions(self._kafka, topic, defaults=_CLIENT)
        try:
            await _undisturbed(reader.count)
        except BaseException:
            self._close(reader)
            raise
        return reader

    def _take(self, idle: dict[TopicPartitions, asyncio.TimerHandle]) -> TopicPartitions | None:
        if not idle:
            return None
        reader, retiring = idle.popitem()
        retiring.cancel()
        return reader

    def _retire(self, idle: dict[TopicPartitions, asyncio.TimerHandle], reader: TopicPartitions) -> None:
        del idle[reader]
        self._close(reader)

    def _close(self, reader: TopicPartitions) -> None:
        task = asyncio.get_running_loop().create_task(asyncio.to_thread(reader.close))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


async def read_history(
    readers: PastReaders, channel_id: str, partition: int, start: int | None, end: int | None = None
) -> AsyncGenerator[tuple[tuple[StoredMessage, ...], int, int], None]:
    """Yield messages of a channel, the offset after them, and the offset at which reading ends.

    Reading ends at `end`, or without it at the end that the partition had at the first page, so that a
    writer that is faster than the reader cannot keep it from ending.
    """
    key = channel_key(channel_id)
    async with contextlib.aclosing(_pages(readers, "sds.messages", partition, start, end)) as pages:
        async for records, offset, last in pages:
            stored = [_stored(record) for record in records if record.key == key]
            yield tuple(message for message in stored if message is not None), offset, last


async def read_events(
    readers: PastReaders,
    channel_id: str,
    partition: int,
    start: int | None,
    heard: Callable[[], int],
    expected: int | None = None,
    *,
    now_ms: Callable[[], int] = steady_ms,
) -> AsyncGenerator[tuple[tuple[ChannelEvent, ...], int, bool], None]:
    """Yield events of a channel in order, the offset after the last, and whether later ones arrive live.

    `heard`: the next offset that arrives live. A batch of the job that failed in the middle leaves a gap
    that its second run fills: events after it wait for that, but at most a minute, and at most a certain
    number of them. `expected`: the number of the first event, if it is known; otherwise any event may be the
    first.
    """
    key = channel_key(channel_id)
    early: dict[int, ChannelEvent] = {}
    early_since_ms = 0
    next_number = expected
    async with contextlib.aclosing(_pages(readers, "sds.events", partition, start, heard)) as pages:
        async for records, offset, last in pages:
            ready: list[ChannelEvent] = []
            for record in records:
                event = _event(channel_id, record) if record.key == key else None
                if event is None:
                    continue
                if next_number is None:
                    next_number = event.event.number
                if event.event.number >= next_number:
                    if not early:
                        early_since_ms = record.timestamp_ms
                    early.setdefault(event.event.number, event)
                while (following := early.pop(next_number, None)) is not None:
                    ready.append(following)
                    next_number += 1
            present = offset >= last
            waited_ms = now_ms() - early_since_ms
            if early and (_size_of(early.values()) > _EARLY_BYTES or (present and waited_ms > _GAP_WAIT_MS)):
                limited.warning("channel %r: event %s is missing from sds.events", channel_id, next_number)
                ready += [early[number] for number in sorted(early)]
                next_number = ready[-1].event.number + 1
                early.clear()
            resume = min((event_waiting.offset for event_waiting in early.values()), default=offset)
            yield tuple(ready), resume, present
            if present:
                return


async def _pages(
    readers: PastReaders,
    topic: str,
    partition: int,
    start: int | None,
    end: Callable[[], int] | int | None = None,
) -> AsyncGenerator[tuple[list[TopicMessage], int, int], None]:
    """Yield records of a partition, the offset after them, and the end, until that is reached.

    `end`: a function is called again after each page; by default it is the current end of the partition.
    """
    async with readers.lend(topic) as reader:
        last = await _undisturbed(partial(_begin, reader, partition, start))
        if isinstance(end, int):
            # Of a topic that was created again since, there is less than was promised.
            last = min(end, last)
        while True:
            records: list[TopicMessage] = []
            if reader.positions[partition] < (end() if callable(end) else last):
                records = await _undisturbed(partial(_page, reader))
            offset = reader.positions[partition]
            now_last = end() if callable(end) else last
            if records or offset >= now_last:
                yield records, offset, now_last
            if offset >= now_last:
                return


async def _undisturbed(work: Callable[[], Result]) -> Result:
    """Run `work` in a thread and wait for its end, also when cancelled: until then the client is in use."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    finally:
        while not task.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([task])


def _page(reader: TopicPartitions) -> list[TopicMessage]:
    """Return the next records, up to a page's count and bytes; an empty list if no record comes in time."""
    records = reader.poll(_POLL_S, 1)
    size = sum(len(record.value) for record in records)
    while records and len(records) < _PAGE_RECORDS and size < _PAGE_BYTES:
        # By how much a page may be too large is bounded by what the client holds.
        more = reader.poll(0, _POLL_RECORDS)
        if not more:
            break
        records += more
        size += sum(len(record.value) for record in more)
    return records


def _begin(reader: TopicPartitions, partition: int, start: int | None) -> int:
    """Start reading a partition at an offset, or at its beginning; returns its end offset now."""
    low, high = reader.range_of(partition)
    first = low if start is None or not low <= start <= high else start
    reader.assign({partition: first})
    return high


def _size_of(events: Iterable[ChannelEvent]) -> int:
    return sum(len(channel_event.event.content or b"") + _EVENT_BYTES for channel_event in events)


def _stored(record: TopicMessage) -> StoredMessage | None:
    try:
        message = SdsMessageRecord.decode(record.value)
    except RecordError as error:
        limited.warning("sds.messages/%d at %d: %s", record.partition, record.offset, error)
        return None
    return StoredMessage(
        message.profile,
        message.message_id,
        message.sender_id,
        message.lamport_timestamp,
        message.wire,
        StoreHint.of(record.partition, record.offset, message.wire).encode(),
        message.retrieval_hint,
    )


def _event(channel_id: str, record: TopicMessage) -> ChannelEvent | None:
    try:
        event = SdsEventRecord.decode(record.value)
    except RecordError as error:
        limited.warning("sds.events/%d at %d: %s", record.partition, record.offset, error)
        return None
    return ChannelEvent(channel_id, event, record.partition, record.offset, record.timestamp_ms)
