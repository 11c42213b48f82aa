"""A broker that dies under edges and job and comes back: what it had not acknowledged comes all the same."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest

from culm_connectors.chotki.reference_peer.peer import ReplicaPeer
from culm_connectors.transport.errors import TransportError
from culm_connectors.transport.tcp.dial import connect_tcp
from culm_connectors.transport.tcp.settings import TcpSettings
from culm_infra.stack import Stack
from culm_models.chotki.replica import Replica
from tests.connectors.chotki.test_chotki_edge import add, edge, make_objects, total
from tests.support.chotki_bridge import bridging
from tests.support.edge import Edge, topics
from tests.support.waiting import until

pytestmark = pytest.mark.kafka


async def keep_connected(peer: ReplicaPeer, to: Edge) -> None:
    """As a replica does: call again whenever the connection has ended."""
    assert to.doors is not None
    address = to.doors.address("chotki-tcp")
    assert address is not None
    while True:
        with contextlib.suppress(TransportError):
            await peer.speak(await connect_tcp(address, TcpSettings()))
        await asyncio.sleep(0.2)


async def test_what_is_live_while_the_broker_is_away_comes_when_it_is_back(
    tmp_path: Path, topic_prefix: str
) -> None:
    stack = Stack(tmp_path / "stack")
    ann, ben = ReplicaPeer(Replica(0xA, name="ann")), ReplicaPeer(Replica(0xB, name="ben"))
    objects = make_objects(ann, 10)
    try:
        kafka = topics(await asyncio.to_thread(stack.up, quick_start=True), topic_prefix)
        async with (
            bridging(kafka, 2) as bridge,
            edge(tmp_path / "north", kafka) as north,
            edge(tmp_path / "south", kafka) as south,
        ):
            calling = [
                asyncio.create_task(keep_connected(peer, to)) for peer, to in ((ann, north), (ben, south))
            ]
            await until(lambda: total(ben, objects[-1]) == 0)
            await asyncio.to_thread(stack.kill)
            for one in objects:
                add(ann, one, 1)
                add(ben, one, 2)
            await asyncio.to_thread(stack.up, quick_start=True)
            await until(lambda: all(total(peer, one) == 3 for peer in (ann, ben) for one in objects))
            await until(lambda: bridge.job.values() == ann.replica.store.values())
            assert ann.replica.store.values() == ben.replica.store.values()
            for task in calling:
                task.cancel()
            await asyncio.gather(*calling, return_exceptions=True)
    finally:
        await asyncio.to_thread(stack.down)
