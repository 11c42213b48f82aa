"""The pump and what serves it: lanes do not wait for each other, a defect costs one connection."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest

from culm_connectors.edge.protocol_metrics import ProtocolMetrics
from culm_connectors.edge.pump import Pump
from culm_connectors.edge.serving import LinkEnded, ServedLink, ServedLinks
from culm_connectors.transport import CloseCode, CloseOrigin, CloseReason, Connection, ConnectionClosedError
from tests.support.process.waiting import ended, until

CONTROL, DATA = range(2)


class Violated(Exception):
    """What came broke a rule."""


async def call(step: Callable[[], Any]) -> Any:
    return step()


def lanes_of_bytes() -> tuple[list[bytes], list[bytes]]:
    return [], []


@dataclass
class TwoLanes:
    """A machine that keeps what comes and sends what is put into `outgoing`."""

    lanes: ClassVar = 2

    dropped: Exception | None = None
    incoming: tuple[asyncio.Queue[bytes], ...] = field(
        default_factory=lambda: (asyncio.Queue(), asyncio.Queue())
    )
    received: tuple[list[bytes], list[bytes]] = field(default_factory=lanes_of_bytes)
    outgoing: tuple[list[bytes], list[bytes]] = field(default_factory=lanes_of_bytes)
    sent: tuple[list[bytes], list[bytes]] = field(default_factory=lanes_of_bytes)
    has_capacity: asyncio.Event = field(default_factory=asyncio.Event)
    is_ready: asyncio.Event = field(default_factory=asyncio.Event)
    reads: list[int] = field(default_factory=lambda: [0, 0])

    async def read(self, lane: int) -> bytes:
        self.reads[lane] += 1
        return await self.incoming[lane].get()

    def receive(self, lane: int, data: bytes) -> Generator[None, None, None]:
        for byte in data:
            self.received[lane].append(bytes([byte]))
            yield
            if byte == 0xFF:
                self.dropped = Violated()

    async def until_ready(self, lane: int, size: int) -> bool:
        if lane == DATA:
            await self.is_ready.wait()
        return False

    async def capacity(self, lane: int) -> int:
        if lane == DATA:
            await self.has_capacity.wait()
        return 1

    def take(self, lane: int, capacity: int) -> tuple[bytes, bool]:
        waiting = self.outgoing[lane]
        return (waiting.pop(0) if waiting else b""), bool(waiting)

    async def write(self, lane: int, data: bytes) -> None:
        self.sent[lane].append(data)


@asynccontextmanager
async def pumped(machine: TwoLanes) -> AsyncIterator[tuple[Pump, asyncio.Task[BaseException | None]]]:
    pump = Pump(machine, call, call)
    running = asyncio.create_task(pump.run())
    try:
        yield pump, running
    finally:
        pump.stop()
        await running


async def test_control_is_sent_while_data_waits_for_capacity() -> None:
    machine = TwoLanes(outgoing=([b"a", b"b"], [b"c"]))
    async with pumped(machine) as (pump, _):
        await until(lambda: len(machine.sent[CONTROL]) == 2)
        assert machine.sent == ([b"a", b"b"], [])
        machine.has_capacity.set()
        await until(lambda: machine.sent[DATA] == [b"c"])
        machine.outgoing[CONTROL].append(b"d")
        pump.wake(CONTROL)
        await until(lambda: machine.sent[CONTROL][-1] == b"d")


async def test_nothing_more_is_read_of_a_lane_before_what_came_is_dealt_with() -> None:
    machine = TwoLanes()
    async with pumped(machine):
        machine.incoming[DATA].put_nowait(b"one")
        machine.incoming[CONTROL].put_nowait(b"x")
        await until(lambda: len(machine.received[DATA]) == 3 and machine.reads[CONTROL] == 2)
        assert machine.reads[DATA] == 1
        machine.is_ready.set()
        await until(lambda: machine.reads[DATA] == 2)


async def test_it_ends_with_what_broke_a_rule_with_the_other_end_or_when_it_is_stopped() -> None:
    machine = TwoLanes()
    async with pumped(machine) as (_, running):
        machine.incoming[CONTROL].put_nowait(b"\xff")
        await ended(asyncio.wait([running]))
        assert isinstance(running.result(), Violated)
    machine = TwoLanes()
    async with pumped(machine) as (_, running):
        machine.incoming[CONTROL].put_nowait(b"")
        await ended(asyncio.wait([running]))
        assert running.result() is None
    async with pumped(TwoLanes()) as (pump, running):
        pump.stop()
        await ended(asyncio.wait([running]))
        assert running.result() is None


GONE = CloseReason(CloseCode.NORMAL, "", CloseOrigin.REMOTE, application=True)


@pytest.mark.parametrize(
    ("error", "code", "logged"),
    [
        (ConnectionClosedError(GONE), CloseCode.NORMAL, []),
        (ValueError("a defect"), CloseCode.INTERNAL, [logging.ERROR, logging.WARNING]),
    ],
)
async def test_what_ends_the_speaking_is_told_and_logged(
    error: Exception, code: CloseCode, logged: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    codes: list[int] = []

    async def close(code: int, reason: str) -> None:
        codes.append(code)

    async def speak(_: ServedLink) -> LinkEnded:
        raise error

    reason = GONE if code is CloseCode.NORMAL else None
    connection: Any = SimpleNamespace(
        peer_id=bytes(32), remote_address=("127.0.0.1", 1), close_reason=reason, close=close
    )
    metrics, gone = ProtocolMetrics(), list[ServedLink]()
    links = ServedLinks[ServedLink](metrics, id, gone.append)
    link = ServedLink(cast(Connection, connection))
    links.begin(link)
    await links.serve(link, speak)
    assert (codes, gone, links.open, metrics.connections) == ([code], [link], {}, 0)
    assert [record.levelno for record in caplog.records if record.levelno > logging.INFO] == logged
    assert metrics.closed == ({} if reason else {"internal": 1})
