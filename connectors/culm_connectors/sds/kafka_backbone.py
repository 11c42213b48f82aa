"""The backbone in Kafka: channels are followed, written, and read back through its topics.

Live data comes from `sds.in` (messages of the peers of other connectors), `sds.out` (messages of participants
of the job), `sds.events` and `sds.fetch`, from the partitions of channels with members here. History comes
from `sds.messages` and `sds.events`. Single messages are found by the index, which is kept in a local file
from the first join on. An ephemeral message takes the same way as any other, through `sds.in`, which keeps
records only for a time; the job ignores it there.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from confluent_kafka import Consumer

from culm_connectors.kafka import BatchProducer, ProducerRecord
from culm_connectors.kafka.partition_follower import FollowedRecord, PartitionFollower
from culm_connectors.kafka.topic_readers import log_kafka_error
from culm_connectors.rate_limit import LimitedLog
from culm_connectors.sds.backbone import ChannelListener, EventAt, OutgoingRecord, Page
from culm_connectors.sds.channels.owners import ChannelOwners
from culm_connectors.sds.history.replay import PastReaders, read_events, read_history
from culm_connectors.sds.history.store_lookup import Lookups
from culm_models.sds.wire.messages import HistoryEntry
from culm_topics.errors import RecordError
from culm_topics.kafka.acls import connector_group_prefix
from culm_topics.kafka.clients import KafkaSettings, consumer
from culm_topics.readers.partitions import TopicPartitions
from culm_topics.sds.event_sequence import ChannelEvent, EventGap, EventSequence
from culm_topics.sds.keys import channel_key, shard_of, split_channel_key
from culm_topics.sds.records import SdsEventRecord, SdsFetchRecord, SdsInRecord, SdsOutRecord
from culm_topics.sds.store import StoredMessage

limited = LimitedLog(logging.getLogger(__name__))

FOLLOWED = ("sds.owners", "sds.in", "sds.out", "sds.events", "sds.fetch")
_FROM_THE_BEGINNING = frozenset({"sds.owners"})
INDEX_FILE = "sds-index.sqlite"
_GAP_WAIT_S = 30.0


class KafkaBackbone:
    """Implements `Backbone`. `run` must be running. An asynchronous context manager."""

    def __init__(
        self, kafka: KafkaSettings, producer: BatchProducer, connector_id: bytes, directory: Path
    ) -> None:
        self._listeners: list[ChannelListener] = []
        self.owners = ChannelOwners()
        self._kafka = kafka
        self._producer = producer
        self._connector_id = connector_id
        self._lookups = Lookups(kafka, directory / INDEX_FILE)
        self._past = PastReaders(kafka)
        self._partitions: int | None = None
        self._followed: Counter[str] = Counter()
        self._sequence = EventSequence({}, learns=True, gap_wait_seconds=_GAP_WAIT_S)
        self.malformed: Counter[str] = Counter()
        """Malformed records, by topic; they are skipped."""

    async def __aenter__(self) -> KafkaBackbone:
        self._following = PartitionFollower(
            self._consumer,
            {self._kafka.topic(name): name for name in FOLLOWED},
            self._take,
            whole=_FROM_THE_BEGINNING,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._following.close()
        await self._lookups.close()
        await self._past.close()

    async def run(self) -> None:
        """Keep the index of the store up to date; raises the error that ended following, if any."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._lookups.run())
            await asyncio.shield(self._following.failure)

    @property
    def failure(self) -> str | None:
        """The reason why the index of the store cannot be written now; None if it can."""
        failure = self._lookups.failure
        return None if failure is None else f"{failure} ({failure.code})"

    def _consumer(self) -> Consumer:
        return consumer(
            self._kafka,
            group_id=f"{connector_group_prefix(self._kafka)}{self._connector_id.hex()[:16]}",
            # What lies too far back is not missed: peers catch up from the store.
            start="latest",
            on_error=log_kafka_error,
            defaults={"enable.partition.eof": "true"},
        )

    # What is sent.

    async def put(self, batch: Sequence[OutgoingRecord]) -> None:
        """Produce records, in order."""
        partitions = await self._partition_count()
        destinations: dict[tuple[str, int], list[ProducerRecord]] = {}
        for outgoing in batch:
            topic = "sds.in" if isinstance(outgoing.record, SdsInRecord) else "sds.commands"
            destination = (topic, shard_of(outgoing.channel_id, partitions))
            record = ProducerRecord(key=channel_key(outgoing.channel_id), value=outgoing.record.encode())
            destinations.setdefault(destination, []).append(record)
        await asyncio.gather(
            *(
                self._producer.send(self._kafka.topic(topic), records, partition)
                for (topic, partition), records in destinations.items()
            )
        )

    async def _partition_count(self) -> int:
        if self._partitions is None:
            self._partitions = await asyncio.to_thread(self._ask_partition_count)
        return self._partitions

    def _ask_partition_count(self) -> int:
        with TopicPartitions(self._kafka, "sds.in") as topic:
            return topic.count()

    # What is received.

    def subscribe(self, listener: ChannelListener) -> None:
        """Report events of followed channels to a listener from now on."""
        self._listeners.append(listener)

    async def follow(self, channel_id: str) -> None:
        """Receive a channel from now on. Raises `TopicMissing`, `KafkaFailure`, `ConsumeFailed`."""
        partition = shard_of(channel_id, await self._partition_count())
        self._followed[channel_id] += 1
        try:
            await self._following.follow(partition)
        except BaseException:
            self._forget(channel_id)
            raise
        self._lookups.begin()

    def unfollow(self, channel_id: str) -> None:
        """A subscriber left the channel."""
        assert self._partitions is not None, "it was followed"
        self._forget(channel_id)
        self._following.unfollow(shard_of(channel_id, self._partitions))

    def _forget(self, channel_id: str) -> None:
        self._followed[channel_id] -= 1
        if self._followed[channel_id] <= 0:
            del self._followed[channel_id]
            self._sequence.forget(channel_id)

    def _take(self, records: Sequence[FollowedRecord]) -> None:
        now_s = asyncio.get_running_loop().time()
        while self._sequence.overdue(now_s):
            try:
                self._sequence.check(now_s)
            except EventGap as gap:
                self._begin_anew(gap)
        for record in records:
            try:
                if record.topic == "sds.owners":
                    owned = self.owners.take(record.key, record.value)
                    for listener in self._listeners:
                        listener.owned(*owned)
                    continue
                channel_id = split_channel_key(record.key)
                if channel_id in self._followed:
                    self._pass_on(channel_id, record, now_s)
            except RecordError as error:
                self.malformed[record.topic] += 1
                limited.warning("%s/%d at %d: %s", record.topic, record.partition, record.offset, error)

    def _pass_on(self, channel_id: str, record: FollowedRecord, now_s: float) -> None:
        match record.topic:
            case "sds.in":
                incoming = SdsInRecord.decode(record.value)
                if incoming.connector != self._connector_id:
                    for listener in self._listeners:
                        listener.received(
                            channel_id, incoming.profile, incoming.wire, incoming.retrieval_hint
                        )
            case "sds.out":
                out = SdsOutRecord.decode(record.value)
                for listener in self._listeners:
                    listener.received(channel_id, out.profile, out.wire)
            case "sds.events":
                event = SdsEventRecord.decode(record.value)
                self._in_order(ChannelEvent(channel_id, event, record.partition, record.offset, 0), now_s)
            case _:
                for listener in self._listeners:
                    listener.wanted(channel_id, SdsFetchRecord.decode(record.value))

    def _in_order(self, received: ChannelEvent, now_s: float) -> None:
        try:
            ready = self._sequence.take(received, now_s)
        except EventGap as gap:
            self._begin_anew(gap)
            return
        for event in ready:
            for listener in self._listeners:
                listener.happened(event.channel_id, event.event, cursor_of(event.offset + 1))

    def _begin_anew(self, gap: EventGap) -> None:
        """Start the channel again: members notice the gap by the numbers and read the history."""
        limited.warning("%s", gap)
        self._sequence.forget(gap.channel_id)

    # The past.

    async def history(
        self, channel_id: str, cursor: bytes, end: bytes = b""
    ) -> AsyncGenerator[Page[StoredMessage], None]:
        """Yield the channel's messages in the store, from a cursor to `end`, or to the present."""
        partition = shard_of(channel_id, await self._partition_count())
        async with contextlib.aclosing(
            read_history(self._past, channel_id, partition, offset_of(cursor), offset_of(end))
        ) as pages:
            async for items, offset, last in pages:
                yield Page(items, cursor_of(offset), offset >= last, cursor_of(last))

    async def events(
        self, channel_id: str, cursor: bytes, expected: int | None = None
    ) -> AsyncGenerator[Page[EventAt], None]:
        """Yield the channel's events from a cursor to the present."""
        partition = shard_of(channel_id, await self._partition_count())
        position = ("sds.events", partition)
        async with contextlib.aclosing(
            read_events(
                self._past,
                channel_id,
                partition,
                offset_of(cursor),
                lambda: self._following.positions.get(position, 0),
                expected,
            )
        ) as pages:
            async for events, offset, present in pages:
                items = tuple(
                    (channel_event.event, cursor_of(channel_event.offset + 1)) for channel_event in events
                )
                yield Page(items, cursor_of(offset), present)

    def present(self, channel_id: str) -> bytes:
        """Return the cursor from which on events arrive live."""
        assert self._partitions is not None, "it is followed"
        partition = shard_of(channel_id, self._partitions)
        return cursor_of(self._following.positions.get(("sds.events", partition), 0))

    async def find(self, channel_id: str, entries: Sequence[HistoryEntry]) -> Sequence[StoredMessage]:
        """Return those messages that the store holds."""
        return await self._lookups.find(channel_id, entries)

    async def heads(self, channel_ids: Sequence[str]) -> Mapping[str, Sequence[tuple[int, str]]]:
        """Return the newest messages of channels in the store."""
        return await self._lookups.heads(channel_ids)

    def mark(self, channel_id: str) -> bytes | None:
        """Return a cursor of the store before which all was received live; None if it is unknown."""
        if self._partitions is None:
            return None
        offset = self._lookups.settled(shard_of(channel_id, self._partitions))
        return None if offset is None else cursor_of(offset)


def cursor_of(offset: int) -> bytes:
    """Return the cursor of an offset in the channel's partition, of the store or of the events."""
    return offset.to_bytes(8, "big")


def offset_of(cursor: bytes) -> int | None:
    """Return the offset of a cursor; None for the beginning, which a malformed cursor means, too."""
    return int.from_bytes(cursor, "big") if len(cursor) == 8 else None
