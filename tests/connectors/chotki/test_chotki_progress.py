"""What operators see of diffs, peers and sessions: lines, metrics, and reasons (reference 9.1, 9.3, 10)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from culm_connectors.chotki.connection import ReplicaConnection
from culm_connectors.chotki.driver import ChotkiDriver
from culm_connectors.chotki.feed.peer_holding import PeerLag
from culm_connectors.chotki.host import EdgeHost, EdgeShared
from culm_connectors.chotki.metrics import families
from culm_connectors.chotki.settings import ChotkiEdgeSettings
from culm_connectors.transport import Identity, TransportSettings
from culm_connectors.transport.interface import Refusal
from culm_connectors.transport.memory import MemoryChannel, memory_pair
from culm_connectors.transport.principal import Principal
from culm_models.chotki.errors import RecordTooLarge
from culm_models.chotki.events import SyncState
from culm_models.chotki.ids import Id
from culm_models.chotki.packets.packet import read_bye
from culm_models.chotki.rdx import parse_vector, write_vector
from culm_models.chotki.replica import Replica
from culm_models.chotki.sync.open_syncs import OpenSync
from culm_models.chotki.sync.progress import IncomingProgress
from culm_models.chotki.tlv import record
from culm_topics.chotki.records import Behind, SessionRecord, VectorRecord
from tests.models.chotki.wire import new_object
from tests.support.chotki.edge import Acknowledging, edge_shared
from tests.support.process.waiting import until, while_working

BLOCK = 1 << 28


@pytest.fixture
def driver() -> ChotkiDriver:
    return ChotkiDriver(Identity.from_private_key(bytes(32)), TransportSettings(), lambda principal: None)


@pytest.fixture
def producer() -> Acknowledging:
    return Acknowledging()


@pytest.fixture
def shared(tmp_path: Path, driver: ChotkiDriver, producer: Acknowledging) -> Iterator[EdgeShared]:
    settings = ChotkiEdgeSettings()
    with edge_shared(
        tmp_path, settings=settings, producer=producer, report=driver.reports.event, metrics=driver.metrics
    ) as edge_parts:
        driver.begin(edge_parts)
        yield edge_parts


def told(producer: Acknowledging) -> list[SessionRecord]:
    return [SessionRecord.decode(record) for record in producer.of("chotki.sessions")]


async def test_who_cannot_be_served_is_told_why(
    shared: EdgeShared, driver: ChotkiDriver, producer: Acknowledging
) -> None:
    # Packets were dropped that no epoch has.
    shared.tail._dropped[0] = 7
    near, far = memory_pair()
    reports = asyncio.create_task(driver.write_reports())
    serving = asyncio.create_task(driver.serve(near))
    async with while_working():
        assert read_bye(await far.read()) == "chotki.tail_full"
        assert await far.read() == b""
        await serving
    await until(lambda: bool(told(producer)))
    last = told(producer)[-1]
    assert (last.code, last.state) == ("chotki.tail_full", "SendNone") and "behind" in last.reason
    assert driver.metrics.refused["not_ready"] == 1
    reports.cancel()


async def test_progress_and_lag_of_a_peer_are_told_when_they_change(
    shared: EdgeShared, driver: ChotkiDriver, producer: Acknowledging
) -> None:
    near, far = memory_pair()
    connection = ReplicaConnection(shared, near, 1, "peer")
    driver.connections[1] = connection
    task = asyncio.create_task(connection.run())
    reports = asyncio.create_task(driver.write_reports())
    peer = Replica(0xA)
    new_object(peer, 10)
    for data in peer.open_session("edge", 0).of("edge"):
        await far.write(data)
    await until(lambda: connection.session.state is SyncState.LIVE)
    driver.reports.watch([connection])
    driver.reports.watch([connection])
    await until(lambda: bool(producer.of("chotki.vectors")))
    (holding,) = map(VectorRecord.decode, producer.of("chotki.vectors"))
    assert parse_vector(holding.vector)[0xA] == peer.vector()[0xA] and holding.behind == ()
    connection.session._syncs.progress.take(Id(0xA, 0), 50)
    driver.reports.watch([connection])
    await until(lambda: any(session.received.blocks_done for session in told(producer)))
    assert told(producer)[-1].received.bytes_done == 50
    reports.cancel()
    far.abort()
    async with while_working():
        await task


def test_what_a_peer_lacks_is_told_by_source_with_its_age() -> None:
    lag = PeerLag()
    own = {0xA: 10, 0xB: 20, 0xC: 0}
    first = lag.next(own, {0xA: 10}, 1_000)
    assert first is not None and first.behind == (Behind(0xB, 20, 1_000), Behind(0xC, 0, 1_000))
    assert lag.next(own, {0xA: 10}, 2_000) is None
    second = lag.next({**own, 0xB: 30}, {0xA: 10, 0xC: 0}, 3_000)
    assert second is not None and second.behind == (Behind(0xB, 30, 1_000),), "it is behind since then"
    assert lag.oldest_ms(5_000) == 4_000
    third = lag.next(own, own, 6_000)
    assert third is not None and third.behind == () and lag.oldest_ms(7_000) == 0
    assert lag.next(own, own, 65_999) is None
    assert lag.next(own, own, 66_000) == replace(third, time_ms=66_000), "once a minute in any case"


def test_a_vector_of_more_sources_than_a_record_holds_is_told_of_in_part_and_no_diff_brings_it(
    shared: EdgeShared, monkeypatch: pytest.MonkeyPatch
) -> None:
    vector = {src: src << 12 for src in range(1, 11)}
    with monkeypatch.context() as patched:
        patched.setattr("culm_connectors.chotki.feed.peer_holding._MOST_HELD", 3)
        record = PeerLag().next({10: 11 << 12}, vector, 0)
    assert record is not None and parse_vector(record.vector) == {src: vector[src] for src in (1, 2, 3)}
    assert [lag.src for lag in record.behind] == [10]
    monkeypatch.setattr("culm_connectors.chotki.storage_limits.MAX_VECTOR_BYTES", 40)
    host = EdgeHost(shared, cast(Any, None), lambda event: None)
    sync = OpenSync(Id(0xA, 0), write_vector(vector), True, host.open_spool(), 0, 0)
    with pytest.raises(RecordTooLarge):
        host.commit_sync(sync, [])


def test_of_what_comes_the_blocks_are_estimated_from_both_vectors() -> None:
    progress = IncomingProgress.expected({0xA: 3 * BLOCK + 5, 0xB: 7, 0xC: 9}, {0xA: BLOCK + 1, 0xB: 7})
    assert progress.now() == (0, 3 + 1, 0, 0)
    for block, size in ((Id(0xA, BLOCK), 10), (Id(0xA, BLOCK), 20), (Id(0xA, 2 * BLOCK), 30)):
        progress.take(block, size)
    assert progress.now() == (2, 4, 60, 0)
    for number in range(3):
        progress.take(Id(0xD, number * BLOCK), 1)
    assert progress.now() == (5, 5, 63, 0), "edits lie in other blocks, too"


async def test_metrics_have_depth_age_and_progress(shared: EdgeShared, driver: ChotkiDriver) -> None:
    connection = ReplicaConnection(shared, memory_pair()[0], 1, "peer")
    driver.connections[1] = connection
    connection.publisher._queue._oldest_ms = 0
    connection.session._syncs.progress.take(Id(0xA, 0), 50)
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in families(driver.measured(), epoch=3, tail=4, tail_bytes=5, spool_bytes=6, duplicates=0)
        for sample in family.samples
    }
    assert samples["culm_chotki_waiting_seconds",] > 0
    assert samples["culm_chotki_tail_bytes",] == 5 and samples["culm_chotki_spool_bytes",] == 6
    assert samples["culm_chotki_diff_blocks", "in", "done"] == 1
    assert samples["culm_chotki_diff_bytes", "in", "done"] == 50
    assert samples["culm_chotki_diff_bytes", "out", "total"] == 0
    assert samples["culm_chotki_peer_lag_seconds",] == 0


Served = tuple[ChotkiDriver, set[str]]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A driver over an empty store, and who is not allowed."""
    barred: set[str] = set()

    def judge(principal: Principal) -> Refusal | None:
        return Refusal("not on the allow-list") if principal.name in barred else None

    driver = ChotkiDriver(Identity.from_private_key(bytes(32)), TransportSettings(), judge)
    with edge_shared(tmp_path, report=driver.reports.event, metrics=driver.metrics) as shared:
        driver.begin(shared)
        yield driver, barred


async def meets(driver: ChotkiDriver) -> tuple[MemoryChannel, asyncio.Task[None]]:
    """A peer whose handshake was taken."""
    near, far = memory_pair(1 << 16)
    task = asyncio.create_task(driver.serve(near))
    for data in Replica(0xA).open_session("edge", 0).of("edge"):
        await far.write(data)
    await until(
        lambda: any(connection.session.peer is not None for connection in driver.connections.values())
    )
    return far, task


async def test_a_peer_that_goes_has_left_and_its_bytes_are_counted(served: Served) -> None:
    driver, _ = served
    far, task = await meets(driver)
    assert (driver.measured().connections, driver.metrics.sessions_started) == (1, 1)
    far.abort("gone")
    async with while_working():
        await task
    measured = driver.measured()
    assert (measured.connections, measured.connections_total) == (0, 1)
    assert (measured.sessions_done, measured.sessions_left, measured.sessions_failed.total()) == (0, 1, 0)
    assert measured.bytes_in > 0 and measured.bytes_out > 0


async def test_what_is_refused_fails_the_session_by_its_code(served: Served) -> None:
    driver, _ = served
    far, task = await meets(driver)
    await far.write(record("X", b"no such packet"))
    async with while_working():
        while await far.read():
            pass
        far.finish()
        await task
    ((code, count),) = driver.metrics.sessions_failed.items()
    assert code.startswith("chotki.") and count == 1
    assert driver.metrics.rejects == {code: 1}
    assert driver.metrics.closed == {"protocol": 1}
    assert driver.metrics.sessions_left == driver.metrics.sessions_done == 0


async def test_a_session_that_both_end_in_words_is_done(served: Served) -> None:
    driver, _ = served
    far, task = await meets(driver)
    await far.write(record("B", record("T", bytes(0))))
    async with while_working():
        while await far.read():
            pass
        far.finish()
        await task
    assert (driver.metrics.sessions_done, driver.metrics.sessions_failed.total()) == (1, 0)


async def test_who_is_not_allowed_is_refused_and_who_is_no_longer_is_closed(served: Served) -> None:
    driver, barred = served
    _, task = await meets(driver)
    (connection,) = driver.connections.values()
    barred.add(connection.channel.principal.name)
    driver.judge_again()
    async with while_working():
        await task
    again, _ = memory_pair(4_096)
    await driver.serve(again)
    assert driver.metrics.closed == {"revoked": 1}
    assert driver.metrics.refused == {"identity": 1}
    assert driver.metrics.connections_total == 1


class Rules:
    """Everybody is allowed until somebody is not."""

    def __init__(self) -> None:
        self.refused: set[str] = set()

    def judge(self, principal: Principal) -> Refusal | None:
        return Refusal("not on the allow-list") if principal.name in self.refused else None


async def test_a_session_is_ended_when_its_peer_is_allowed_no_longer_and_not_begun_again(
    tmp_path: Path,
) -> None:
    rules = Rules()
    driver = ChotkiDriver(Identity.from_private_key(bytes(32)), TransportSettings(), rules.judge)
    with edge_shared(tmp_path, report=driver.reports.event) as shared:
        driver.begin(shared)
        near, _ = memory_pair(4_096)
        task = asyncio.create_task(driver.serve(near))
        await until(lambda: driver.connections)
        driver.judge_again()
        assert near.close_reason is None
        rules.refused.add(near.principal.name)
        driver.judge_again()
        async with while_working():
            await task
        assert near.close_reason is not None and not driver.connections
        again, _ = memory_pair(4_096)
        async with while_working():
            await driver.serve(again)
        assert again.close_reason is not None and not driver.connections
