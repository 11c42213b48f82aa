"""What an edge of Chotki counts: how sessions end, who is turned away, and the bytes of both directions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from culm_connectors.chotki.driver import ChotkiDriver
from culm_connectors.transport import Identity, TransportSettings
from culm_connectors.transport.interface import Refusal
from culm_connectors.transport.memory import MemoryChannel, memory_pair
from culm_connectors.transport.principal import Principal
from culm_models.chotki.replica import Replica
from culm_models.chotki.tlv import record
from tests.support.chotki_edge import edge_shared
from tests.support.waiting import until, while_working

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
    await until(lambda: any(one.session.peer is not None for one in driver.connections.values()))
    return far, task


async def test_a_peer_that_goes_has_left_and_its_bytes_are_counted(served: Served) -> None:
    driver, _ = served
    far, task = await meets(driver)
    assert (driver.measured().connections, driver.metrics.sessions_started) == (1, 1)
    far.abort("gone")
    async with while_working():
        await task
    found = driver.measured()
    assert (found.connections, found.connections_total) == (0, 1)
    assert (found.sessions_done, found.sessions_left, found.sessions_failed.total()) == (0, 1, 0)
    assert found.bytes_in > 0 and found.bytes_out > 0


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
