"""How many remotes catch up at a time and in which order, and what a driver does before a full store."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from culm_connectors.clock import steady_ms
from culm_connectors.logs.hub import Arrival
from culm_connectors.p2panda.connections.catch_up_limiter import CatchUpLimiter
from culm_connectors.p2panda.reference_peer.authoring import Draft
from culm_connectors.p2panda.reference_peer.peer import ReferencePeer
from culm_connectors.p2panda.settings import DriverSettings
from culm_connectors.transport.reconnect import Backoff
from culm_models.bamboo.checks import SoundEntry
from culm_models.bamboo.log_store import LogKey
from tests.support.connectors.edge import reference_peer, write_document
from tests.support.p2panda.logs import OTHER_SCHEMA, SCHEMA, author
from tests.support.process.waiting import until, while_working

A, B, C, D = (bytes([number]) * 32 for number in range(4))


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_turns_are_given_in_the_order_in_which_they_were_asked_for() -> None:
    turns = CatchUpLimiter(1, 10.0)
    await turns.take(A, 0.0)
    order: list[bytes] = []

    async def wait(remote: bytes) -> None:
        await turns.take(remote, 0.0)
        order.append(remote)

    async with asyncio.TaskGroup() as group:
        for remote in (B, C, D):
            group.create_task(wait(remote))
        await settled()
        assert (order, turns.waiting) == ([], 3)
        for remote in (A, B, C):
            turns.give_back(remote, 0.0)
            await settled()
    assert order == [B, C, D]


async def test_a_remote_takes_one_turn_however_often_it_asks() -> None:
    turns = CatchUpLimiter(2, 10.0)
    for _ in range(5):
        await turns.take(A, 0.0)
    await turns.take(B, 0.0)
    assert turns.has(A)
    assert turns.has(B)


async def test_a_turn_that_lasts_too_long_does_not_hold_up_the_others() -> None:
    turns = CatchUpLimiter(1, 10.0)
    await turns.take(A, 0.0)
    waiting = asyncio.ensure_future(turns.take(B, 1.0))
    await settled()
    turns.pass_time(9.0)
    await settled()
    assert not waiting.done()
    turns.pass_time(10.0)
    await waiting
    assert not turns.has(A)


async def test_who_gives_up_waiting_holds_up_nobody() -> None:
    turns = CatchUpLimiter(1, 10.0)
    await turns.take(A, 0.0)
    first, second = (asyncio.ensure_future(turns.take(remote, 0.0)) for remote in (B, C))
    await settled()
    first.cancel()
    turns.give_back(A, 0.0)
    await second
    with contextlib.suppress(asyncio.CancelledError):
        await first
    assert not turns.has(B)
    # A turn that comes in the moment in which it is given up goes on to the next.
    third = asyncio.ensure_future(turns.take(B, 0.0))
    fourth = asyncio.ensure_future(turns.take(D, 0.0))
    await settled()
    turns.give_back(C, 0.0)
    third.cancel()
    await fourth
    assert turns.has(D)


def test_pauses_double_up_to_a_bound_and_begin_anew_after_a_success() -> None:
    backoff = Backoff(1.0, 10.0, lambda low, high: high)
    assert [backoff.pause_s() for _ in range(6)] == [1, 2, 4, 8, 10, 10]
    backoff.succeeded()
    assert backoff.pause_s() == 1
    for _ in range(2_000):
        assert backoff.pause_s() <= 10


def test_pauses_are_spread() -> None:
    lowest, highest = Backoff(8.0, 8.0, lambda low, high: low), Backoff(8.0, 8.0, lambda low, high: high)
    assert (lowest.pause_s(), highest.pause_s()) == (4.0, 8.0)


async def test_peers_that_wait_for_their_turn_catch_up_all_the_same(tmp_path: Path) -> None:
    one_at_a_time = DriverSettings(max_catching_up=1)
    async with contextlib.AsyncExitStack() as stack:
        hub = await stack.enter_async_context(reference_peer(tmp_path, "hub", driver=one_at_a_time))
        await write_document(hub, 50)
        await write_document(hub, 50, schema_id=OTHER_SCHEMA)
        listener = await stack.enter_async_context(hub.serve())
        peers = [
            await stack.enter_async_context(reference_peer(tmp_path, name, schemas=[SCHEMA, OTHER_SCHEMA]))
            for name in "abcdef"
        ]
        async with asyncio.TaskGroup() as group:
            for peer in peers:
                group.create_task(peer.sync(listener.address))
        assert all(peer.heights() == hub.heights() for peer in peers)


@pytest.mark.parametrize(
    "limits", [{"max_staged_items": 256}, {"max_staged_bytes": 64_000, "store_batch_bytes": 8_000}]
)
async def test_a_sink_that_takes_nothing_stops_the_remote(tmp_path: Path, limits: dict[str, Any]) -> None:
    settings = DriverSettings(check_chunk=64, check_chunks_ahead=2, read_bytes=16_384, **limits)
    gate = asyncio.Event()

    class Slow(ReferencePeer):
        async def store_arrivals(self, arrivals: Sequence[Arrival], sender: object) -> Sequence[SoundEntry]:
            await gate.wait()
            return await super().store_arrivals(arrivals, sender)

    slow = Slow(tmp_path / "slow", key_pair=author("slow"), durable=False, driver=settings, live_mode=False)
    async with slow, reference_peer(tmp_path, "a") as a, a.serve() as listener:
        for _ in range(10):
            await write_document(a, 999)
        syncing = asyncio.create_task(slow.sync(listener.address))
        await until(lambda: slow.driver.metrics.staged >= 128)
        link = a.driver.links.open
        await until(lambda: slow.peer_id in link)
        # Its windows are full: the writer waits, and what was taken has stopped growing.
        await until(lambda: link[slow.peer_id].connection.statistics().unsent_bytes > 256 * 1024)
        taken = -1
        while taken != slow.driver.metrics.entries_in:
            taken = slow.driver.metrics.entries_in
            await asyncio.sleep(0.2)
        assert taken < 5_000
        assert slow.driver.metrics.staged <= 256 + 64
        gate.set()
        summary = await syncing
        assert summary.entries_received == 10_000
        assert slow.heights() == a.heights()


async def test_a_session_whose_words_wait_for_the_store_does_not_time_out(tmp_path: Path) -> None:
    settings = DriverSettings(
        max_staged_items=64, check_chunk=32, check_chunks_ahead=2, read_bytes=16_384, tick_interval_s=0.01
    )
    gate = asyncio.Event()

    class Slow(ReferencePeer):
        async def store_arrivals(self, arrivals: Sequence[Arrival], sender: object) -> Sequence[SoundEntry]:
            await gate.wait()
            return await super().store_arrivals(arrivals, sender)

    slow = Slow(tmp_path / "slow", key_pair=author("slow"), durable=False, driver=settings, live_mode=False)
    async with slow, reference_peer(tmp_path, "a") as a, a.serve() as listener:
        await write_document(a, 499)
        syncing = asyncio.create_task(slow.sync(listener.address))
        await until(lambda: a.peer_id in slow.driver.links.open)
        link = slow.driver.links.open[a.peer_id]
        await until(lambda: slow.driver.metrics.staged >= 64 and link.is_behind)
        # Hours pass.
        slow.driver._now_ms = lambda: steady_ms() + 10_000_000
        ticks = 0
        tick = slow.driver.peer.tick

        def counted(now: int, busy: Collection[bytes] = ()) -> None:
            nonlocal ticks
            ticks += 1
            tick(now, busy)

        slow.driver.peer.tick = counted  # type: ignore[method-assign]
        await until(lambda: ticks >= 3)
        slow.driver._now_ms = steady_ms
        gate.set()
        async with while_working():
            assert (await syncing).entries_received == 500
        assert not slow.driver.metrics.sessions_failed


async def test_deliveries_of_live_entries_wait_for_a_remote_that_is_slow(tmp_path: Path) -> None:
    gate = asyncio.Event()
    delivered: dict[LogKey, int] = {}

    class Slow(ReferencePeer):
        async def store_arrivals(self, arrivals: Sequence[Arrival], sender: object) -> Sequence[SoundEntry]:
            await gate.wait()
            return await super().store_arrivals(arrivals, sender)

    class Sender(ReferencePeer):
        wants_deliveries = True

        def on_gone(self, remote: bytes) -> None:
            pass

        def on_delivered(self, remote: bytes, heights: Mapping[LogKey, int]) -> None:
            delivered.update(heights)

    few = DriverSettings(max_staged_items=4, check_chunk=2, check_chunks_ahead=1, read_bytes=16_384)
    slow = Slow(tmp_path / "slow", key_pair=author("slow"), durable=False, driver=few, schemas=[SCHEMA])
    sender = Sender(tmp_path / "sender", key_pair=author("sender"), durable=False, schemas=[SCHEMA])
    async with slow, sender, sender.serve() as listener:
        slow.dial(listener.address)
        await until(lambda: sender.driver.metrics.sessions_live)
        (created,) = await sender.publish([Draft("create", SCHEMA, {"name": "created"})])
        for number in range(400):
            fields = {"name": f"{number} " * 4_000}
            await sender.publish([Draft("update", SCHEMA, fields, document_id=created.hash)])
        link = sender.driver.links.open[slow.peer_id]
        await until(lambda: link.connection.statistics().unsent_bytes > 256 * 1024)
        gate.set()
        await slow.wait_until_holding({created.log: 401}, 30)
        await until(lambda: delivered.get(created.log) == 401)
        assert sender.driver.links.open[slow.peer_id] is link
