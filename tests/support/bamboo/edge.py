"""Bamboo in tests: connectors over a broker, peers in folders that call them, `culm bamboo` as processes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from culm_connectors.bamboo_p2p.edge.settings import BambooEdgeSettings
from culm_connectors.bamboo_p2p.interest import FollowedLog
from culm_connectors.bamboo_p2p.peer import BambooPeer
from culm_connectors.p2panda.settings import P2pandaSettings
from culm_connectors.protocols import PROTOCOLS
from culm_connectors.settings import ConnectorSettings
from culm_connectors.url import Url
from culm_models.bamboo.hashes import YAMF, HashFlavour
from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo_p2p.settings import Direction
from culm_topics.kafka.clients import KafkaSettings
from tests.support.connectors.edge import Edge, ready
from tests.support.process.waiting import while_working


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
    protocols = tuple(protocol for protocol in PROTOCOLS if protocol.name in names)
    connector_settings = ConnectorSettings(
        directory=folder, bamboo=bamboo, p2panda=P2pandaSettings(schemas=schemas)
    )
    return ready(Edge(connector_settings, kafka, protocols=protocols))


def address(edge: Edge, door: str = "bamboo-yamf-tcp") -> Url:
    """Where an edge is called."""
    assert edge.doors is not None
    address = edge.doors.address(door)
    assert address is not None, edge.doors.where()
    return Url("tcp" if door.endswith("-tcp") else "quic", *address)


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
            held_end = await peer.read(lambda store: store.payloads(log).end_of_run(1))
            if end > entries and (held_end > entries or not payloads):
                return
            await asyncio.sleep(0.02)


async def until_payload(peer: BambooPeer, log: LogKey, seq_num: int) -> None:
    """Wait until a peer holds one payload."""
    async with while_working():
        while True:
            if await peer.read(lambda store: store.has_payload(log, seq_num)):
                return
            await asyncio.sleep(0.02)


CULM = (sys.executable, "-c", "from culm_infra.cli import main; main()", "bamboo")


@dataclass
class Served:
    """A process that serves a folder."""

    url: str
    process: asyncio.subprocess.Process

    async def next_event(self, kind: str) -> dict[str, Any]:
        """What it tells next of this kind."""
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            event: dict[str, Any] = json.loads(line)
            if event["event"] == kind:
                return event
        raise AssertionError(f"it ended without telling of {kind}")


@asynccontextmanager
async def serving(folder: Path, *options: str, url: str = "tcp://127.0.0.1:0") -> AsyncIterator[Served]:
    """Serve a folder while the context lasts."""
    async with running("serve", url, "--dir", str(folder), *options) as served:
        served.url = (await served.next_event("listening"))["url"]
        yield served


@asynccontextmanager
async def running(*arguments: str) -> AsyncIterator[Served]:
    """Run a command that stays, while the context lasts."""
    process = await asyncio.create_subprocess_exec(
        *CULM, *arguments, "--json", stdout=subprocess.PIPE, limit=2**20
    )
    try:
        yield Served("", process)
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGCONT)
            process.send_signal(signal.SIGINT)
            assert process.stdout is not None
            try:
                async with asyncio.timeout(10):
                    await process.stdout.read()
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()


async def command(*arguments: str, status: int = 0) -> list[dict[str, Any]]:
    """Run a command with `--json`: what it says."""
    process = await asyncio.create_subprocess_exec(
        *CULM, *arguments, "--json", stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    output, complaint = await process.communicate()
    assert process.returncode == status, complaint.decode()
    return [json.loads(line) for line in output.splitlines()]
