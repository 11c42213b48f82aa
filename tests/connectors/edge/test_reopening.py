"""A protocol whose store has failed is closed and opened again; whatever else fails ends the connector."""

from __future__ import annotations

import asyncio
import errno
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client.core import Metric

from culm_connectors.edge.opening import reopening
from culm_connectors.edge.opening.reopening import ClosedProtocol, ReopenedProtocol
from culm_connectors.edge.protocol import EdgeContext
from culm_connectors.edge.protocol_metrics import ProtocolMetrics
from culm_connectors.local_store.errors import StoreDamaged, StoreFull
from culm_connectors.logs.index.errors import IndexBusy, IndexDamaged, IndexFull, IndexUnusable
from tests.support.connectors.context import edge_context


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
        self.contexts: list[EdgeContext] = []
        self.reopened = ReopenedProtocol("p", self.opening, edge_context(folder), self.protocols)

    @asynccontextmanager
    async def opening(self, context: EdgeContext) -> AsyncIterator[Any]:
        self.contexts.append(context)
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


@pytest.mark.parametrize("damaged", [StoreDamaged, IndexDamaged])
async def test_a_damaged_store_is_opened_again_at_once(
    connector: Connector, damaged: type[StoreDamaged]
) -> None:
    running = asyncio.create_task(connector.run())
    assert await connector.events.get() == "ready"
    connector.opened[0].failure.set_exception(damaged("torn"))
    closed = f"closed: the local store of p cannot be used ({damaged.code})"
    assert await connector.events.get() == closed, "without what it is called here"
    assert await connector.events.get() == "ready"
    assert [str(error) for error in connector.closed_with] == ["torn"], "its own context sees the error"
    assert connector.protocols["p"] is connector.opened[1]
    first, second = (context.connector_id for context in connector.contexts)
    assert first != second, "what the first has produced is not known to be in the second store"
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


def test_a_closed_protocol_has_no_connections_but_keeps_its_counts() -> None:
    # The counts of a protocol with several drivers are a sum, which does not change when connections leave.
    closed = ClosedProtocol("p: no space", ProtocolMetrics(connections=3, connections_total=7)).measured()
    assert (closed.connections, closed.connections_total) == (0, 7)


@pytest.mark.parametrize(
    "error",
    [
        StoreFull("no space"),
        IndexFull("no space"),
        IndexUnusable("its head was not written"),
        OSError(errno.ENOSPC, "no space"),
    ],
)
async def test_a_store_that_cannot_be_opened_at_the_start_is_opened_when_there_is_space(
    connector: Connector, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    spaces: asyncio.Queue[bool] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def has_space(directory: Path) -> bool:
        return asyncio.run_coroutine_threadsafe(spaces.get(), loop).result(30)

    monkeypatch.setattr(reopening, "has_space", has_space)
    connector.refusals = [error]
    running = asyncio.create_task(connector.run())
    await asyncio.sleep(0)
    (reason,) = connector.protocols["p"].why_not_ready()
    assert "no space" in reason.lower() or "its head was not written" in reason
    spaces.put_nowait(False)
    spaces.put_nowait(True)
    assert await connector.events.get() == "ready"
    assert connector.protocols["p"] is connector.opened[0]
    running.cancel()


class Shared:
    """A service that fails when it is told to."""

    def __init__(self) -> None:
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        await self.failure

    def metrics(self) -> Iterator[Metric]:
        return iter(())

    async def finish(self) -> None:
        """Do nothing."""


class Services:
    """Protocols over one service, and what happens to it."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.opened: list[Shared] = []

    @asynccontextmanager
    async def open_shared(self, _: EdgeContext) -> AsyncIterator[Shared]:
        self.told.append("opened")
        self.opened.append(Shared())
        try:
            yield self.opened[-1]
        except StoreDamaged:
            self.told.append("damaged")
            raise
        finally:
            self.told.append("closed")

    def opening(self, name: str) -> Callable[[EdgeContext], Any]:
        @asynccontextmanager
        async def opening(context: EdgeContext) -> AsyncIterator[Any]:
            assert await context.shared_service(self.open_shared) is self.opened[-1]
            yield Protocol()
            self.told.append(f"{name} closed")

        return opening


async def test_protocols_that_ask_for_a_service_get_one_and_it_outlives_them(tmp_path: Path) -> None:
    services, context, protocols = Services(), edge_context(tmp_path), dict[str, Any]()
    async with AsyncExitStack() as stack:
        for name in ("a", "b"):
            await stack.enter_async_context(
                ReopenedProtocol(name, services.opening(name), context, protocols)
            )
        assert list(context.shared) == services.opened
    assert services.told == ["opened", "b closed", "a closed", "closed"]
    assert list(context.shared) == []


async def test_damage_in_a_service_closes_it_with_the_protocols_over_it_and_all_are_opened_again(
    tmp_path: Path,
) -> None:
    services, context, protocols = Services(), edge_context(tmp_path), dict[str, Any]()
    events: asyncio.Queue[str] = asyncio.Queue()
    doors: Any = SimpleNamespace(close=lambda doors, reason: events.put_nowait("closed"))

    async def ready(_: object) -> None:
        events.put_nowait("ready")

    async def run(name: str) -> None:
        async with ReopenedProtocol(name, services.opening(name), context, protocols) as protocol:
            await protocol.run(doors, ready)

    running = [asyncio.create_task(run(name)) for name in ("a", "b")]
    assert {await events.get(), await events.get()} == {"ready"}
    services.opened[0].failure.set_exception(StoreDamaged("torn"))
    assert sorted([await events.get() for _ in range(4)]) == ["closed", "closed", "ready", "ready"]
    assert services.told == ["opened", "damaged", "closed", "opened"]
    assert list(context.shared) == services.opened[1:]
    for task in running:
        task.cancel()
    await asyncio.wait(running)


@pytest.mark.parametrize("error", [IndexBusy("another process has it"), ValueError("a defect")])
async def test_whatever_else_fails_ends_the_connector(connector: Connector, error: Exception) -> None:
    running = asyncio.create_task(connector.run())
    await connector.events.get()
    connector.opened[0].failure.set_exception(error)
    with pytest.raises(ExceptionGroup):
        await running
    assert len(connector.opened) == 1
