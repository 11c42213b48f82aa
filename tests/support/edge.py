"""The edge in tests: reference peers in folders, connectors as tasks, and waiting with a deadline."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from culm_connectors.authoring import Draft
from culm_connectors.connector import Connector
from culm_connectors.peer import ReferencePeer
from culm_connectors.settings import ConnectorSettings
from culm_models.p2panda.checks import CheckedEntry
from culm_topics import admin
from culm_topics.kafka import KafkaSettings
from tests.support.logs import SCHEMA, author

DEADLINE_S = 30.0


async def until(condition: Callable[[], Any], timeout_s: float = DEADLINE_S) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 - the condition is somebody else's
            await asyncio.sleep(0.01)


def reference_peer(folder: Path, name: str, **options: Any) -> ReferencePeer:
    """A peer whose key follows from its name; nothing is flushed to the disk."""
    return ReferencePeer(folder / name, key_pair=author(name), durable=False, **options)


async def write_document(
    peer: ReferencePeer, updates: int = 0, *, schema_id: str = SCHEMA
) -> list[CheckedEntry]:
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


@contextlib.asynccontextmanager
async def running(connector: Connector) -> AsyncIterator[Connector]:
    """A connector that serves; its failure fails the test."""
    task = asyncio.create_task(connector.run())
    try:
        await until(lambda: task.done() or connector.address is not None)
        if task.done():
            await task
        yield connector
    finally:
        connector.stop()
        await task


def connector(folder: Path, kafka: KafkaSettings, **settings: Any) -> Connector:
    """A connector in a folder of its own."""
    return Connector(ConnectorSettings(directory=folder, **settings), kafka)
