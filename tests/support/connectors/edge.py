"""The edge in tests: reference peers in folders, connectors as tasks, and waiting with a deadline."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from culm_connectors.connector import Connector
from culm_connectors.kafka import TopicReader
from culm_connectors.kafka.backlog import BatchSender
from culm_connectors.logs.hub import LogHub, LogPublisher
from culm_connectors.logs.index import IndexWriter
from culm_connectors.logs.warm_start.warm_start import WarmStart
from culm_connectors.p2panda.aquadoggo.links import NodeLinks
from culm_connectors.p2panda.driver import Driver
from culm_connectors.p2panda.interest import Interest
from culm_connectors.p2panda.protocol import P2pandaProtocol
from culm_connectors.p2panda.reference_peer.authoring import Draft
from culm_connectors.p2panda.reference_peer.peer import ReferencePeer
from culm_connectors.p2panda.settings import P2pandaSettings
from culm_connectors.p2panda.topic_followers import TopicFollowers
from culm_connectors.sds.driver import SdsDriver
from culm_connectors.sds.protocol import SdsProtocol
from culm_connectors.settings import ConnectorSettings
from culm_connectors.transport.libp2p.multiaddr import Multiaddr, parse_multiaddr
from culm_models.p2panda.operations.operation import CheckedOperation
from culm_topics.kafka import admin
from culm_topics.kafka.clients import KafkaSettings
from tests.support.p2panda.logs import SCHEMA, author
from tests.support.process.waiting import until


def reference_peer(folder: Path, name: str, **options: Any) -> ReferencePeer:
    """A peer whose key follows from its name; nothing is flushed to the disk."""
    return ReferencePeer(folder / name, key_pair=author(name), durable=False, **options)


async def write_document(
    peer: ReferencePeer, updates: int = 0, *, schema_id: str = SCHEMA
) -> list[CheckedOperation]:
    """Publish one document: a create and some updates."""
    created = await peer.publish([Draft("create", schema_id, {"name": "created"})])
    drafts = [
        Draft("update", schema_id, {"name": f"update {number}"}, document_id=created[0].hash)
        for number in range(updates)
    ]
    return created + (await peer.publish(drafts) if drafts else [])


def topics(bootstrap: str, prefix: str, partitions: int = 2) -> KafkaSettings:
    """Fresh topics on the tests' broker."""
    settings = KafkaSettings(bootstrap=bootstrap, prefix=prefix, partitions=partitions)
    admin.create(settings)
    return settings


def running(connector: Edge) -> AbstractAsyncContextManager[Edge]:
    """A connector that serves p2panda; its failure fails the test."""
    return _running(connector, lambda: connector.address is not None)


def ready(connector: Edge) -> AbstractAsyncContextManager[Edge]:
    """A connector whose every protocol is ready; its failure fails the test."""
    return _running(connector, lambda: connector.is_ready)


@contextlib.asynccontextmanager
async def _running(connector: Edge, serves: Callable[[], bool]) -> AsyncIterator[Edge]:
    task = asyncio.create_task(connector.run())
    try:
        await until(lambda: task.done() or serves())
        if task.done():
            await task
        yield connector
    finally:
        connector.stop()
        await task


class Edge(Connector):
    """A connector whose inside tests look at, by the names that things have there."""

    @property
    def p2panda(self) -> P2pandaProtocol:
        protocol = self.protocols["p2panda"]
        assert isinstance(protocol, P2pandaProtocol)
        return protocol

    @property
    def index(self) -> IndexWriter:
        return self.p2panda.index

    @property
    def driver(self) -> Driver:
        return self.p2panda.parts.driver

    @property
    def nodes(self) -> NodeLinks | None:
        return self.p2panda.parts.nodes

    @property
    def listening_libp2p(self) -> Multiaddr:
        assert self.doors is not None
        return parse_multiaddr(self.doors.where()["libp2p"])

    @property
    def interest(self) -> Interest:
        return self.p2panda.parts.interest

    @property
    def followers(self) -> TopicFollowers:
        return self.p2panda.parts.followers

    @property
    def sender(self) -> BatchSender:
        return self.p2panda.parts.logs.sender

    @property
    def publisher(self) -> LogPublisher:
        return self.p2panda.parts.logs.publisher

    @property
    def hub(self) -> LogHub:
        return self.p2panda.parts.logs.hub

    @property
    def warm_start(self) -> WarmStart:
        return self.p2panda.parts.logs.warm_start

    @property
    def sds(self) -> SdsDriver:
        protocol = self.protocols["sds"]
        assert isinstance(protocol, SdsProtocol)
        return protocol.driver


def hold_catching_up(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Connectors do not read `logs` before this is set."""
    gate = asyncio.Event()
    catch_up = TopicFollowers._catch_up

    async def gated(self: TopicFollowers, logs: TopicReader, *, fresh: bool) -> None:
        await gate.wait()
        await catch_up(self, logs, fresh=fresh)

    monkeypatch.setattr(TopicFollowers, "_catch_up", gated)
    return gate


def connector(folder: Path, kafka: KafkaSettings, **settings: Any) -> Edge:
    """A connector in a folder of its own; settings of p2panda may stand among the others."""
    p2panda = {name: settings.pop(name) for name in P2pandaSettings.model_fields.keys() & settings.keys()}
    return Edge(ConnectorSettings(directory=folder, p2panda=P2pandaSettings(**p2panda), **settings), kafka)
