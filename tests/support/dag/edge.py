"""Parts of a DAG edge in tests: its folder and service over topics that are lists."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from culm_connectors.dag.edge.edge_folder import EdgeFolder, open_edge_folder
from culm_connectors.dag.edge.from_topics import FOLLOWED, DagApplier
from culm_connectors.dag.edge.outboxes import DagPartitions, NodeOutbox, ShardOutbox
from culm_connectors.dag.edge.refusals import DagRefusals
from culm_connectors.dag.edge.service import EdgeDagService
from culm_connectors.dag.edge.settings import DagEdgeSettings, EdgeQuotas
from culm_connectors.dag.settings import ALPN
from culm_connectors.dag.store.settings import DagFolderSettings
from culm_connectors.edge.feed import Feed
from culm_connectors.edge.intake import Intake
from culm_connectors.edge.protocol_metrics import Durations
from culm_connectors.kafka import Batch, ProducerRecord
from culm_connectors.kafka.backlog import BatchSender
from culm_connectors.protocols import PROTOCOLS
from culm_connectors.settings import ConnectorSettings
from culm_connectors.transport.interface import Address
from culm_models.testing.dag.replica import NOW
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.kafka.origin import Origin
from tests.support.connectors.edge import Edge, ready

KAFKA = KafkaSettings(bootstrap="nowhere:1", prefix="")
ORIGIN = Origin("cluster", {"dag.nodes": "one"})


@dataclass(frozen=True)
class ListedMessage:
    """A record of a topic that is a list."""

    name: str
    number: int
    record: ProducerRecord

    def topic(self) -> str:
        return self.name

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self.number

    def key(self) -> bytes:
        return self.record["key"]

    def value(self) -> bytes | None:
        return self.record["value"]


@dataclass
class ListedTopics:
    """Topics of one partition, and who produces to them; nothing is acknowledged before `answers`."""

    topics: dict[str, list[ProducerRecord]] = field(default_factory=dict)
    answers: asyncio.Event = field(default_factory=asyncio.Event)
    asked: int = 0
    """How often something was to be produced."""

    def __post_init__(self) -> None:
        self.answers.set()

    async def send(self, topic: str, records: Sequence[ProducerRecord], partition: int | None = None) -> int:
        self.asked += 1
        await self.answers.wait()
        name = topic.removeprefix(KAFKA.prefix).removeprefix(".")
        self.topics.setdefault(name, []).extend(records)
        return len(self.topics[name])

    def records(self, name: str) -> list[ProducerRecord]:
        return self.topics.get(name, [])

    def batch(self, name: str, since: int = 0) -> Batch:
        """What is in a topic, as it is read."""
        messages: Any = tuple(
            ListedMessage(name, number, record)
            for number, record in enumerate(self.records(name))
            if number >= since
        )
        return Batch(messages, {(name, 0): len(self.records(name))})


@dataclass
class EdgeParts:
    """What one edge consists of."""

    folder: EdgeFolder
    service: EdgeDagService
    feed: Feed
    sender: BatchSender
    topics: ListedTopics

    async def follow(self, *names: str, again: bool = False) -> None:
        """Read topics on from where they were left, or again from their start."""
        offsets = {} if again else await self.service.work(lambda _: self.folder.tables.topics.kept())
        for name in names or FOLLOWED:
            await self.feed.take(name, self.topics.batch(name, offsets.get((name, 0), 0)))


@contextlib.asynccontextmanager
async def edge_parts(
    path: Path, topics: ListedTopics, quotas: EdgeQuotas | None = None, **settings: Any
) -> AsyncIterator[EdgeParts]:
    """The parts of an edge, which publishes while the context lasts."""
    producer: Any = topics
    folder = open_edge_folder(path, ORIGIN, DagFolderSettings(**settings), quotas or EdgeQuotas())
    sender = BatchSender(producer)
    refusals = DagRefusals(sender, KAFKA)
    service = EdgeDagService(folder, Intake(Durations()), refusals, lambda: NOW)
    for outbox in (NodeOutbox, ShardOutbox):
        service.intake.add(outbox(service, producer, KAFKA, DagPartitions(1, 1)))
    feed = Feed(FOLLOWED, DagApplier(service), refusals.record)
    service.restart = feed.restart
    async with service:
        running = asyncio.create_task(service.intake.run())
        try:
            yield EdgeParts(folder, service, feed, sender, topics)
        finally:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running
    folder.close()


def dag_connector(
    folder: Path, kafka: KafkaSettings, **settings: Any
) -> contextlib.AbstractAsyncContextManager[Edge]:
    """A connector that serves DAGs over QUIC; its failure fails the test."""
    dag = DagEdgeSettings(listen="127.0.0.1:0", **settings)
    protocols = tuple(protocol for protocol in PROTOCOLS if protocol.name == "dag")
    return ready(Edge(ConnectorSettings(directory=folder, dag=dag), kafka, protocols=protocols))


def dag_address(edge: Edge) -> Address:
    """Where an edge is called."""
    assert edge.doors is not None
    address = edge.doors.address(ALPN)
    assert address is not None, edge.doors.where()
    return address
