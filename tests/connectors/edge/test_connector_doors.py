"""Each protocol is served when it is ready itself, whatever another one waits for."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from culm_connectors.p2panda.settings import ALPN as P2PANDA
from culm_connectors.sds.settings import ALPN as SDS
from culm_connectors.transport import CloseCode, ConnectError, connect
from culm_topics.kafka.clients import KafkaSettings
from tests.support.edge import connector, hold_catching_up, reference_peer, write_document
from tests.support.quic import identity, quick_settings
from tests.support.sds_edge import remote
from tests.support.waiting import until

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
