"""How many remotes catch up at a time, and in which order the others follow."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

from culm_connectors.p2panda.connections.catch_up_limiter import CatchUpLimiter
from culm_connectors.p2panda.settings import DriverSettings
from culm_connectors.transport.reconnect import Backoff
from tests.support.edge import reference_peer, write_document
from tests.support.logs import OTHER_SCHEMA, SCHEMA

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
