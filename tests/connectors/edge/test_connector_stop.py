"""A connector's protocols are served when each is ready, and store what they have taken when it stops."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from culm_connectors import connector as connector_module
from culm_connectors.logs.hub import Arrival
from culm_connectors.p2panda.settings import ALPN as P2PANDA
from culm_connectors.sds.settings import ALPN as SDS
from culm_connectors.transport import CloseCode, ConnectError
from culm_connectors.transport.quic import connect
from culm_models.bamboo.checks import SoundEntry
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.readers.partitions import read_to_end
from culm_topics.status_socket import CONNECTOR_SOCKET, read_status
from tests.support.connectors.edge import Edge, connector, hold_catching_up, reference_peer, write_document
from tests.support.connectors.quic import identity, quick_settings
from tests.support.p2panda.logs import SCHEMA
from tests.support.process.waiting import until, while_working
from tests.support.sds.edge import remote

pytestmark = pytest.mark.kafka


async def test_participants_are_served_while_the_logs_are_still_read(
    tmp_path: Path, kafka: KafkaSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = hold_catching_up(monkeypatch)
    edge = connector(tmp_path / "edge", kafka)
    task = asyncio.create_task(edge.run())
    try:
        await until(lambda: task.done() or (edge.doors is not None and edge.doors.address(SDS) is not None))
        assert edge.doors is not None
        address = edge.doors.address(SDS)
        assert address is not None
        async with remote(address, 1) as ann:
            await ann.joins("room", "ann")
            assert edge.health.why_not_ready() != ()
            status = await asyncio.to_thread(read_status, tmp_path / "edge" / CONNECTOR_SOCKET)
            assert (status["ready"], status["peer_id"]) == (False, edge.key_pair.public_key.hex())
            participants, peers = status["protocols"]["sds"], status["protocols"]["p2panda"]
            assert (participants["ready"], participants["doors"]) == (True, edge.doors.where())
            assert [peer["peer"] for peer in participants["peers"]] == [identity(1).peer_id.hex()]
            assert (peers["doors"], peers["connections"], peers["ready"]) == ({}, 0, False)
            assert edge.address is None and edge.doors.address(P2PANDA) is None
            with pytest.raises(ConnectError) as refused:
                await connect(address, identity(2), None, quick_settings(), alpn=P2PANDA)
            assert refused.value.reason is not None and refused.value.reason.code == CloseCode.NOT_READY
            async with reference_peer(tmp_path, "a") as peer:
                document = await write_document(peer, 2)
                peer.dial(address)
                await asyncio.sleep(0.3)
                gate.set()
                # It comes again by itself, once it may.
                await until(lambda: edge.index.store.height(*document[0].log) == 3)
            assert edge.address == address
            await until(lambda: edge.health.why_not_ready() == ())
    finally:
        edge.stop()
        await task
    assert not (tmp_path / "edge" / CONNECTOR_SOCKET).exists()


async def stopped_in_mid_store(tmp_path: Path, kafka: KafkaSettings, gate: asyncio.Event) -> Edge:
    """Stop a connector whose store waits at a gate with entries of a peer; the gate is opened meanwhile."""
    edge = connector(tmp_path / "edge", kafka, schemas=(SCHEMA,))
    task = asyncio.create_task(edge.run())
    await until(lambda: task.done() or edge.address is not None)
    assert edge.address is not None
    sink = edge.driver._sink

    async def gated(arrivals: Sequence[Arrival], sender: object) -> Sequence[SoundEntry]:
        await gate.wait()
        return await sink(arrivals, sender)

    edge.driver._sink = gated
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
