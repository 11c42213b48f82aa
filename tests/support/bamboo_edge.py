"""Edges of Bamboo Point-2-Point in tests: connectors over a broker, and peers in folders that call them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from culm_connectors.bamboo_p2p.edge.settings import BambooEdgeSettings
from culm_connectors.bamboo_p2p.interest import FollowedLog
from culm_connectors.bamboo_p2p.peer import BambooPeer
from culm_connectors.p2panda.settings import P2pandaSettings
from culm_connectors.protocols import PROTOCOLS
from culm_connectors.settings import ConnectorSettings
from culm_connectors.transport.url import Url
from culm_models.bamboo.hashes import YAMF, HashFlavour
from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo_p2p.settings import Direction
from culm_topics.kafka.clients import KafkaSettings
from tests.support.edge import Edge, ready
from tests.support.waiting import while_working


def bamboo_edge(
    folder: Path,
    kafka: KafkaSettings,
    *,
    listen: tuple[str, ...] = ("tcp://127.0.0.1:0",),
    names: tuple[str, ...] = ("bamboo_p2p",),
    schemas: tuple[str, ...] = (),
    **settings: object,
) -> contextlib.AbstractAsyncContextManager[Edge]:
    """A connector that serves; its failure fails the test."""
    bamboo = BambooEdgeSettings(listen=listen, **settings)
    protocols = tuple(one for one in PROTOCOLS if one.name in names)
    given = ConnectorSettings(directory=folder, bamboo=bamboo, p2panda=P2pandaSettings(schemas=schemas))
    return ready(Edge(given, kafka, protocols=protocols))


def address(edge: Edge, door: str = "bamboo-yamf-tcp") -> Url:
    """Where an edge is called."""
    assert edge.doors is not None
    found = edge.doors.address(door)
    assert found is not None, edge.doors.where()
    return Url("tcp" if door.endswith("-tcp") else "quic", *found)


@contextlib.asynccontextmanager
async def peer_at(
    folder: Path, url: Url, *interests: FollowedLog, flavour: HashFlavour = YAMF
) -> AsyncIterator[BambooPeer]:
    """A peer in a folder that stays connected, and follows these logs."""
    async with BambooPeer.open(folder, flavour=flavour) as peer:
        for interest in interests:
            await peer.follow(interest)
        calling = asyncio.create_task(peer.keep_connected(url))
        try:
            yield peer
        finally:
            calling.cancel()
            await asyncio.gather(calling, return_exceptions=True)


def offering(log: LogKey) -> FollowedLog:
    """What whoever publishes a log proposes."""
    return FollowedLog(log, direction=Direction.BOTH)


async def until_held(peer: BambooPeer, log: LogKey, entries: int, *, payloads: bool = True) -> None:
    """Wait until a peer holds the beginning of a log."""
    async with while_working():
        while True:
            end = await peer.read(lambda store: store.end_of_held_entries(log, 1))
            held = await peer.read(lambda store: store.payloads(log).end_of_run(1))
            if end > entries and (held > entries or not payloads):
                return
            await asyncio.sleep(0.02)


async def until_payload(peer: BambooPeer, log: LogKey, seq_num: int) -> None:
    """Wait until a peer holds one payload."""
    async with while_working():
        while True:
            if await peer.read(lambda store: store.has_payload(log, seq_num)):
                return
            await asyncio.sleep(0.02)
