"""An edge of Bamboo Point-2-Point whose topics are in memory: the folder, the outbox, what is followed."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from confluent_kafka import Message

from culm_connectors.bamboo_p2p.edge.access import TABLE
from culm_connectors.bamboo_p2p.edge.driver import FlavourEdge, open_flavour
from culm_connectors.bamboo_p2p.edge.metrics import BambooMetrics
from culm_connectors.bamboo_p2p.edge.publisher import SparsePartitions
from culm_connectors.bamboo_p2p.edge.settings import BambooEdgeSettings, FlavourName
from culm_connectors.edge.access import AccessWatch
from culm_connectors.edge.protocol import EdgeContext
from culm_connectors.kafka import Batch, ProducerRecord, TopicReaders
from culm_connectors.protocols import LOG_PAYLOADS, load
from culm_connectors.settings import ConnectorSettings
from culm_models.keys import KeyPair
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.kafka.origin import Origin
from tests.support.process.waiting import while_working

KAFKA = KafkaSettings(bootstrap="127.0.0.1:1", prefix="memory")


@dataclass(frozen=True, slots=True)
class _Record:
    """What `confluent_kafka.Message` says of a record, as far as it is asked."""

    place: tuple[str, int, int]
    record: ProducerRecord

    def topic(self) -> str:
        return self.place[0]

    def partition(self) -> int:
        return self.place[1]

    def offset(self) -> int:
        return self.place[2]

    def key(self) -> bytes | None:
        return self.record["key"]

    def value(self) -> bytes | None:
        return self.record["value"]


class MemoryTopics:
    """Topics of one partition each: what is produced is acknowledged, and comes to whoever follows them.

    While it `is_away` nothing is.
    """

    def __init__(self) -> None:
        self._records: dict[str, list[_Record]] = defaultdict(list)
        self._taken: dict[str, int] = {}
        self._changed = asyncio.Condition()
        self.is_away = False

    # As a producer.

    async def send(self, topic: str, records: Sequence[ProducerRecord], partition: int | None = None) -> int:
        async with self._changed:
            await self._changed.wait_for(lambda: not self.is_away)
            there = self._records[topic]
            there += [_Record((topic, 0, len(there) + index), record) for index, record in enumerate(records)]
            self._changed.notify_all()
            return len(there)

    async def come_back(self) -> None:
        """Take records again."""
        async with self._changed:
            self.is_away = False
            self._changed.notify_all()

    # As `TopicReaders`.

    def topic(self, name: str) -> str:
        return KAFKA.topic(name)

    @contextlib.asynccontextmanager
    async def open(
        self, name: str, offsets: Mapping[tuple[str, int], int], *, skip_lost: bool = False
    ) -> AsyncIterator[_Reader]:
        topic = self.topic(name)
        yield _Reader(self, topic, offsets.get((topic, 0), 0))

    # As a test looks at them.

    def values(self, name: str) -> list[bytes]:
        """The values of a topic, by its name in the catalogue."""
        return [
            message.record["value"]
            for message in self._records[self.topic(name)]
            if message.record["value"] is not None
        ]

    async def until(self, name: str, count: int) -> list[bytes]:
        """So many values of a topic, once they are there."""
        async with while_working(), self._changed:
            await self._changed.wait_for(lambda: len(self.values(name)) >= count)
        return self.values(name)

    async def until_taken(self, name: str) -> None:
        """Wait until who follows a topic has dealt with all of it."""
        topic = self.topic(name)
        async with while_working(), self._changed:
            await self._changed.wait_for(lambda: self._taken.get(topic) == len(self._records[topic]))

    async def read(self, topic: str, offset: int) -> list[_Record]:
        """What stands behind an offset, once it does; who asks has dealt with what stands before."""
        async with self._changed:
            self._taken[topic] = offset
            self._changed.notify_all()
            await self._changed.wait_for(lambda: len(self._records[topic]) > offset)
        return self._records[topic][offset:]

    def end(self, topic: str) -> int:
        return len(self._records[topic])


class _Reader:
    def __init__(self, topics: MemoryTopics, topic: str, offset: int) -> None:
        self._topics = topics
        self._topic = topic
        self._offset = offset

    async def read_to_end(self) -> AsyncIterator[Batch]:
        while self._topics.end(self._topic) > self._offset:
            yield await self.get()

    async def get(self) -> Batch:
        records = await self._topics.read(self._topic, self._offset)
        self._offset += len(records)
        return Batch(tuple(cast(Message, record) for record in records), {(self._topic, 0): self._offset})


@dataclass(frozen=True, slots=True)
class BrokerlessEdge:
    """One flavour of an edge, and what is behind it."""

    flavour: FlavourEdge
    topics: MemoryTopics
    metrics: BambooMetrics


@contextlib.asynccontextmanager
async def brokerless_edge(
    folder: Path, topics: MemoryTopics | None = None, *, flavour: FlavourName = "yamf", **settings: Any
) -> AsyncIterator[BrokerlessEdge]:
    """An edge that has taken what the topics had; `flavour.peer` listens where a test says."""
    topics = topics or MemoryTopics()
    connector_settings = ConnectorSettings(directory=folder, bamboo=BambooEdgeSettings(**settings))
    context = SimpleNamespace(
        settings=connector_settings,
        kafka=KAFKA,
        key_pair=KeyPair.generate(b"an edge without a broker"),
        connector_id=b"brokerless edge.",
        producer=topics,
        access=AccessWatch(None, [TABLE], 1.0),
    )
    metrics = BambooMetrics()
    async with open_flavour(
        cast(EdgeContext, context),
        flavour,
        Origin("memory", {}),
        SparsePartitions(1, 1),
        load(LOG_PAYLOADS),
        metrics,
    ) as edge:
        running = asyncio.create_task(edge.run(cast(TopicReaders, topics)))
        ready = asyncio.create_task(edge.feed.at_ends.wait())
        try:
            await asyncio.wait((running, ready), return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                await running
            yield BrokerlessEdge(edge, topics, metrics)
            if running.done():
                await running
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
