"""What an edge tells of its sessions: a line when something moves, and what each peer holds."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from culm_connectors.chotki.connection import ReplicaConnection
from culm_connectors.chotki.driver import ChotkiDriver
from culm_connectors.chotki.reference_peer.copy import copy_replica
from culm_connectors.chotki.reference_peer.peer import ReplicaPeer
from culm_connectors.kafka import ProducerRecord
from culm_connectors.transport import Identity, TransportSettings
from culm_connectors.transport.memory import memory_pair
from culm_models.chotki.events import PingReceived, PongReceived
from culm_models.chotki.rdx import parse_vector
from culm_models.chotki.replica import Replica
from culm_topics.chotki.records import HoldingRecord, SessionRecord, source_key
from tests.support.chotki_edge import edge_shared
from tests.support.waiting import until, while_working

PEER = 0xA


class Acknowledging:
    """A producer that keeps what it is given."""

    def __init__(self) -> None:
        self.produced: dict[str, list[ProducerRecord]] = {}

    async def send(self, topic: str, records: list[ProducerRecord], _: int | None = None) -> int:
        self.produced.setdefault(topic, []).extend(records)
        return 1

    def sessions(self) -> list[SessionRecord]:
        return [SessionRecord.decode(one.value) for one in self.produced.get("culm.chotki.sessions", ())]


class Told:
    """An edge with one peer that is live, and what the edge tells."""

    def __init__(self, driver: ChotkiDriver, producer: Acknowledging) -> None:
        self.driver = driver
        self.producer = producer

    @property
    def connection(self) -> ReplicaConnection:
        return next(iter(self.driver.connections.values()))

    async def watch(self) -> list[SessionRecord]:
        """The lines that a look adds."""
        before = len(self.producer.sessions())
        self.driver.reports.watch(tuple(self.driver.connections.values()))
        for _ in range(5):
            await asyncio.sleep(0)
        return self.producer.sessions()[before:]

    def held(self) -> list[ProducerRecord]:
        return self.producer.produced.get("culm.chotki.vectors", [])


@pytest.fixture
async def told(tmp_path: Path) -> AsyncIterator[Told]:
    driver = ChotkiDriver(Identity.from_private_key(bytes(32)), TransportSettings(), lambda _: None)
    producer = Acknowledging()
    near, far = memory_pair()
    peer = ReplicaPeer(Replica(PEER, name="peer"))
    with edge_shared(tmp_path, producer=producer, report=driver.reports.event) as shared:
        driver.begin(shared)
        writing = asyncio.create_task(driver.write_reports())
        talking = [asyncio.create_task(driver.serve(near)), asyncio.create_task(peer.speak(far))]
        try:
            await until(lambda: any(one.state == "SendLive" for one in producer.sessions()))
            yield Told(driver, producer)
        finally:
            far.abort()
            await asyncio.gather(*talking, return_exceptions=True)
            writing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await writing


async def test_a_session_that_is_live_has_a_line_at_once(told: Told) -> None:
    live = next(one for one in told.producer.sessions() if one.state == "SendLive")
    assert (live.peer, live.mode, live.open_syncs) == (PEER, 7, ())
    assert live.trace and live.peer_trace


async def test_a_line_comes_only_when_something_moved(told: Told) -> None:
    await until(lambda: told.connection.session.progress()[1].blocks_done == 1)
    await told.watch()
    assert await told.watch() == []
    told.driver.reports.event(told.connection, PingReceived())
    told.driver.reports.event(told.connection, PongReceived())
    [line] = await told.watch()
    assert (line.pings, line.pongs) == (1, 1)
    assert line.received.blocks_done == line.received.blocks_total == 1
    assert line.received.bytes_done > 0


async def test_what_a_peer_holds_is_told_when_it_is_more(told: Told) -> None:
    await told.watch()
    [first] = told.held()
    assert first.key == source_key(PEER)
    record = HoldingRecord.decode(first.value)
    assert parse_vector(record.vector) == told.connection.feed.holding.vector
    assert record.epoch == 0
    await told.watch()
    assert len(told.held()) == 1
    told.connection.feed.holding.raise_to({0xB: 4096})
    await told.watch()
    assert parse_vector(HoldingRecord.decode(told.held()[1].value).vector)[0xB] == 4096


async def test_a_diff_that_is_on_its_way_is_told_of_with_how_far_it_is(
    told: Told, caplog: pytest.LogCaptureFixture
) -> None:
    near, far = memory_pair()
    slow = Replica(0xB, name="slow")
    serving = asyncio.create_task(told.driver.serve(near))
    await far.write(b"".join(slow.open_session("edge", 0).of("edge")))
    head, *_ = slow.receive("edge", await far.read(), 0).of("edge")
    await far.write(head)  # a D; V is not said yet
    connection = max(told.driver.connections.values(), key=lambda one: one.number)
    await until(lambda: connection.session.progress()[1].blocks_done)
    with caplog.at_level("INFO"):
        lines = await told.watch()
    assert f"received 1 of 1 blocks of the diff, {len(head)} bytes" in caplog.text
    [line] = [one for one in lines if one.peer == 0xB]
    [sync] = line.open_syncs
    assert (sync.src, sync.bytes) == (0xB, len(head))
    far.abort()
    await serving


async def test_who_only_reads_everything_is_no_peer(told: Told) -> None:
    near, far = memory_pair()
    serving = asyncio.create_task(told.driver.serve(near))
    async with while_working():
        await copy_replica(far)
        await serving
    await told.watch()
    assert [one.key for one in told.held()] == [source_key(PEER)]


async def test_a_session_that_is_over_has_a_last_line(told: Told) -> None:
    told.connection.close()
    await until(lambda: told.producer.sessions()[-1].state == "SendNone" and not told.driver.connections)
    assert told.held()
