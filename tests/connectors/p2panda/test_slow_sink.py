"""Before a store that takes nothing, a driver stops reading; nothing grows."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from culm_connectors.clock import steady_ms
from culm_connectors.logs.hub import Arrival
from culm_connectors.p2panda.reference_peer.authoring import Draft
from culm_connectors.p2panda.reference_peer.peer import ReferencePeer
from culm_connectors.p2panda.settings import DriverSettings
from culm_models.bamboo.log_store import LogKey
from tests.support.edge import reference_peer, write_document
from tests.support.logs import SCHEMA, author
from tests.support.waiting import until, while_working


@pytest.mark.parametrize(
    "limits", [{"max_staged_items": 256}, {"max_staged_bytes": 64_000, "store_batch_bytes": 8_000}]
)
async def test_a_sink_that_takes_nothing_stops_the_remote(tmp_path: Path, limits: dict[str, Any]) -> None:
    settings = DriverSettings(check_chunk=64, check_chunks_ahead=2, read_bytes=16_384, **limits)
    gate = asyncio.Event()

    class Slow(ReferencePeer):
        async def store_arrivals(self, arrivals: Sequence[Arrival]) -> Sequence[Arrival]:
            await gate.wait()
            return await super().store_arrivals(arrivals)

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
        async def store_arrivals(self, arrivals: Sequence[Arrival]) -> Sequence[Arrival]:
            await gate.wait()
            return await super().store_arrivals(arrivals)

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
        async def store_arrivals(self, arrivals: Sequence[Arrival]) -> Sequence[Arrival]:
            await gate.wait()
            return await super().store_arrivals(arrivals)

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
