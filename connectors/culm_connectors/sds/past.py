"""Reading one channel's past out of Kafka: messages of the store and events, page by page, in order.

A page is read in a thread; the caller decides when the next one is. An offset that the topic does not have
(the topic was made anew) means the beginning: what comes twice is harmless to whoever hears it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Callable
from typing import Final

from culm_topics.errors import OffsetOutOfRange, RecordError
from culm_topics.kafka import KafkaSettings
from culm_topics.reading import TopicMessage
from culm_topics.records import SdsEventRecord, SdsMessageRecord, channel_key
from culm_topics.sds_hints import StoreHint
from culm_topics.sds_partitions import TopicPartitions
from culm_topics.sds_sequence import ChannelEvent
from culm_topics.sds_store import StoredMessage

logger = logging.getLogger(__name__)

_PAGE_RECORDS: Final = 200
_POLL_S: Final = 0.2
_GAP_WAIT_MS: Final = 60_000


async def read_history(
    kafka: KafkaSettings, channel_id: str, partition: int, start: int | None
) -> AsyncGenerator[tuple[tuple[StoredMessage, ...], int, bool], None]:
    """Messages of a channel, the offset behind them, and whether that was the present."""
    key = channel_key(channel_id)
    async with contextlib.aclosing(_pages(kafka, "sds.messages", partition, start)) as pages:
        async for records, offset, present in pages:
            found = [_stored(record) for record in records if record.key == key]
            yield tuple(one for one in found if one is not None), offset, present


async def read_events(
    kafka: KafkaSettings,
    channel_id: str,
    partition: int,
    start: int | None,
    heard: Callable[[], int],
) -> AsyncGenerator[tuple[tuple[ChannelEvent, ...], int, bool], None]:
    """Events of a channel in order, the offset behind the last, and whether what follows is heard live.

    `heard`: the next offset that comes live. A batch of the job that failed half-way leaves a hole which its
    second run fills: events behind it wait for that, and are given after a minute all the same.
    """
    key = channel_key(channel_id)
    early: dict[int, ChannelEvent] = {}
    early_since_ms = 0
    next_number: int | None = None
    async with contextlib.aclosing(_pages(kafka, "sds.events", partition, start, heard)) as pages:
        async for records, offset, _ in pages:
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
            present = offset >= heard()
            if early and present and time.time_ns() // 1_000_000 - early_since_ms > _GAP_WAIT_MS:
                logger.warning("channel %r: event %s is missing from sds.events", channel_id, next_number)
                ready += [early[number] for number in sorted(early)]
                next_number = ready[-1].event.number + 1
                early.clear()
            resume = min((one.offset for one in early.values()), default=offset)
            yield tuple(ready), resume, present
            if present:
                return


async def _pages(
    kafka: KafkaSettings,
    topic: str,
    partition: int,
    start: int | None,
    end: Callable[[], int] | None = None,
) -> AsyncGenerator[tuple[list[TopicMessage], int, bool], None]:
    """Records of a partition, the offset behind them, and whether that was the end.

    `end`: asked again after each page; without it, the end that the partition had at the beginning.
    """
    reader = TopicPartitions(kafka, topic)
    try:
        first, last = await asyncio.to_thread(_begin, reader, partition, start)
        if end is None and first >= last:
            yield [], first, True
            return
        while True:
            records = (
                []
                if end is not None and reader.positions[partition] >= end()
                else await asyncio.to_thread(reader.poll, _POLL_S, _PAGE_RECORDS)
            )
            offset = reader.positions[partition]
            present = offset >= (last if end is None else end())
            if records or present:
                yield records, offset, present
            if present:
                return
    finally:
        await asyncio.shield(asyncio.to_thread(reader.close))


def _begin(reader: TopicPartitions, partition: int, start: int | None) -> tuple[int, int]:
    low, high = reader.range_of(partition)
    first = low if start is None or not low <= start <= high else start
    try:
        return first, reader.read_from({partition: first})[partition]
    except OffsetOutOfRange:
        low, _ = reader.range_of(partition)
        return low, reader.read_from({partition: low})[partition]


def _stored(record: TopicMessage) -> StoredMessage | None:
    try:
        found = SdsMessageRecord.decode(record.value)
    except RecordError as error:
        logger.warning("sds.messages/%d at %d: %s", record.partition, record.offset, error)
        return None
    return StoredMessage(
        found.profile,
        found.message_id,
        found.sender_id,
        found.lamport_timestamp,
        found.wire,
        StoreHint.of(record.partition, record.offset, found.wire).encode(),
        found.retrieval_hint,
    )


def _event(channel_id: str, record: TopicMessage) -> ChannelEvent | None:
    try:
        event = SdsEventRecord.decode(record.value)
    except RecordError as error:
        logger.warning("sds.events/%d at %d: %s", record.partition, record.offset, error)
        return None
    return ChannelEvent(channel_id, event, record.partition, record.offset, record.timestamp_ms)
