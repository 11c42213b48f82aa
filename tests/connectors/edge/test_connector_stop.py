"""A connector that is told to stop stores what it has taken, and does not wait for ever for that."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from culm_connectors import connector as connector_module
from culm_connectors.logs.publish import Arrival
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.readers.whole_topic import read_to_end
from tests.support.edge import Edge, connector, reference_peer, write_document
from tests.support.logs import SCHEMA
from tests.support.waiting import until, while_working

pytestmark = pytest.mark.kafka


async def stopped_in_mid_store(tmp_path: Path, kafka: KafkaSettings, gate: asyncio.Event) -> Edge:
    """Stop a connector whose store waits at a gate with entries of a peer; the gate is opened meanwhile."""
    edge = connector(tmp_path / "edge", kafka, schemas=(SCHEMA,))
    task = asyncio.create_task(edge.run())
    await until(lambda: task.done() or edge.address is not None)
    assert edge.address is not None
    store = edge.hub.store

    async def gated(arrivals: Sequence[Arrival], bringer: object = None) -> Sequence[Arrival]:
        await gate.wait()
        return await store(arrivals, bringer)

    edge.hub.store = gated  # type: ignore[method-assign]
    async with reference_peer(tmp_path, "a") as a:
        await write_document(a, 30)
        a.dial(edge.address)
        await until(lambda: edge.driver.metrics.entries_accepted == 31)
        edge.stop()
        await until(lambda: not edge.driver.links.open)
        opening = asyncio.get_running_loop().call_later(0.05, gate.set)
        async with while_working():
            await task
        opening.cancel()
    return edge


async def test_what_was_taken_is_stored_before_the_end(tmp_path: Path, kafka: KafkaSettings) -> None:
    edge = await stopped_in_mid_store(tmp_path, kafka, asyncio.Event())
    assert edge.driver.metrics.staged == 0
    assert len(await asyncio.to_thread(lambda: list(read_to_end(kafka, "entries")))) == 31


async def test_a_store_that_takes_nothing_does_not_hold_up_the_end(
    tmp_path: Path, kafka: KafkaSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Shut(asyncio.Event):
        def set(self) -> None:
            """Never open."""

    monkeypatch.setattr(connector_module, "STOP_TIMEOUT_S", 0.1)
    edge = await stopped_in_mid_store(tmp_path, kafka, Shut())
    assert edge.driver.metrics.staged == 31
    assert not list(read_to_end(kafka, "entries"))
