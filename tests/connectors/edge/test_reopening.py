"""A protocol whose store has failed is closed and opened again; whatever else fails ends the connector."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from culm_connectors.edge import reopening
from culm_connectors.edge.protocol_metrics import ProtocolMetrics
from culm_connectors.edge.reopening import ClosedProtocol, ReopenedProtocol
from culm_connectors.local_store.errors import StoreDamaged, StoreFull
from culm_connectors.logs.index.errors import IndexDamaged


class Protocol:
    """A protocol that runs until its store fails."""

    doors = ("its door",)

    def __init__(self) -> None:
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self, ready: Callable[[], Awaitable[None]]) -> None:
        await ready()
        async with asyncio.TaskGroup() as group:
            group.create_task(cast("Any", asyncio.wait_for(self.failure, None)))
            group.create_task(asyncio.Event().wait())

    def measured(self) -> ProtocolMetrics:
        return ProtocolMetrics()


class Connector:
    """What stands around one protocol: how often it was opened, and what became of its doors."""

    def __init__(self, folder: Path) -> None:
        self.protocols: dict[str, Any] = {}
        self.opened: list[Protocol] = []
        self.closed_with: list[BaseException] = []
        self.events: asyncio.Queue[str] = asyncio.Queue()
        self.refusals: list[Exception] = []
        self.context = SimpleNamespace(settings=SimpleNamespace(directory=folder))
        self.reopened = ReopenedProtocol("p", self.opening, cast("Any", self.context), self.protocols)

    @asynccontextmanager
    async def opening(self, context: object) -> AsyncIterator[Any]:
        if self.refusals:
            raise self.refusals.pop()
        protocol = Protocol()
        self.opened.append(protocol)
        try:
            yield protocol
        except BaseException as error:
            self.closed_with.append(error)
            raise

    def close(self, doors: object, reason: str) -> None:
        self.events.put_nowait(f"closed: {reason}")

    async def ready(self, protocol: object) -> None:
        assert protocol is self.opened[-1]
        self.events.put_nowait("ready")

    async def run(self) -> None:
        async with self.reopened:
            await self.reopened.run(cast("Any", self), self.ready)


@pytest.fixture
async def connector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Connector:
    monkeypatch.setattr(reopening, "RETRY_INTERVAL_S", 0.0)
    return Connector(tmp_path)


async def test_a_damaged_store_is_opened_again_at_once(connector: Connector) -> None:
    running = asyncio.create_task(connector.run())
    assert await connector.events.get() == "ready"
    connector.opened[0].failure.set_exception(StoreDamaged("torn"))
    assert await connector.events.get() == "closed: p: torn (local_store.damaged)"
    assert await connector.events.get() == "ready"
    assert [str(error) for error in connector.closed_with] == ["torn"], "its own context sees the error"
    assert connector.protocols["p"] is connector.opened[1]
    running.cancel()


async def test_a_store_that_cannot_be_written_is_closed_until_its_disk_has_space(
    connector: Connector, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: asyncio.Queue[bool] = asyncio.Queue()
    answers = iter((False, False, True, True, True))
    loop = asyncio.get_running_loop()

    def has_space(directory: Path) -> bool:
        loop.call_soon_threadsafe(asked.put_nowait, True)
        return next(answers)

    monkeypatch.setattr(reopening, "has_space", has_space)
    running = asyncio.create_task(connector.run())
    await connector.events.get()
    connector.refusals = [sqlite3.OperationalError("disk I/O error"), OSError("busy")]
    connector.opened[0].failure.set_exception(StoreFull("no space"))
    await connector.events.get()
    await asked.get()
    closed = connector.protocols["p"]
    assert isinstance(closed, ClosedProtocol)
    assert closed.why_not_ready() == ["p: no space (local_store.full)"]
    assert await connector.events.get() == "ready"
    assert (len(connector.opened), connector.refusals, asked.qsize()) == (2, [], 4)
    running.cancel()


@pytest.mark.parametrize("error", [IndexDamaged("shared by several"), ValueError("a defect")])
async def test_whatever_else_fails_ends_the_connector(connector: Connector, error: Exception) -> None:
    running = asyncio.create_task(connector.run())
    await connector.events.get()
    connector.opened[0].failure.set_exception(error)
    with pytest.raises(ExceptionGroup):
        await running
    assert len(connector.opened) == 1
