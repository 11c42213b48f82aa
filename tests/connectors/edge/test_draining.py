"""The order of a drain, with real QUIC and TCP on loopback: not ready, refused, ended in turn, kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from culm_connectors.edge import draining as draining_module
from culm_connectors.edge.doors import Door, Doors, QuicDoor, TcpDoor
from culm_connectors.edge.draining import ENDING, FINISHING, UNREADY, Draining
from culm_connectors.edge.protocol_metrics import ProtocolMetrics
from culm_connectors.edge.serving import Ending, LinkEnded, ServedLink, ServedLinks
from culm_connectors.settings import DrainSettings
from culm_connectors.transport import CloseCode, CloseOrigin, ConnectError, Connection, TransportError
from culm_connectors.transport.interface import ByteChannel
from culm_connectors.transport.quic import connect
from culm_connectors.transport.tcp.dial import connect_tcp
from culm_connectors.transport.tcp.settings import TcpSettings
from tests.support.connectors.quic import ALPN, LOOPBACK, greet_and_echo, identity, quick_settings
from tests.support.process.waiting import ended, until

NEVER_S = 3_600.0


@dataclass
class Service:
    """Doors over QUIC and TCP, the links of one protocol, and the drain of both."""

    doors: Doors
    links: ServedLinks[ServedLink]
    draining: Draining
    metrics: ProtocolMetrics
    ended: list[ServedLink] = field(default_factory=list)

    async def dial(self, number: int) -> Connection:
        """Connect a peer, and wait until it is served."""
        address = self.doors.quic_address
        assert address is not None
        return await connect(address, identity(number), None, quick_settings(), alpn=ALPN)

    def begin(self, *, is_spread: bool) -> asyncio.Task[None]:
        """Begin to drain."""
        self.draining.request(is_spread=is_spread)
        return asyncio.create_task(
            self.draining.end_connections(
                self.doors.refuse,
                lambda reason: [self.links.endings(reason), ()],
                lambda: self.metrics.connections,
            )
        )


@asynccontextmanager
async def service(unready_s: float = 0.0, spread_s: float = 0.0) -> AsyncIterator[Service]:
    metrics = ProtocolMetrics()

    async def speak(link: ServedLink) -> LinkEnded:
        await greet_and_echo(link.connection)
        return LinkEnded(CloseCode.NORMAL)

    async def serve(connection: Connection) -> None:
        link = ServedLink(connection)
        links.begin(link)
        await links.serve(link, speak)

    async def echo(channel: ByteChannel) -> None:
        while data := await channel.read():
            await channel.write(data)

    links = ServedLinks[ServedLink](metrics, lambda link: link.remote, lambda link: None)
    named: list[Door] = [
        QuicDoor(ALPN, LOOPBACK, serve, lambda _: None),
        TcpDoor("tcp", LOOPBACK, echo, lambda _: None),
    ]
    async with Doors(named, identity(9), quick_settings(), TcpSettings()) as doors:
        await doors.open(named)
        draining = Draining(DrainSettings(unready_s=unready_s, spread_s=spread_s))
        yield Service(doors, links, draining, metrics)


async def test_peers_still_connect_while_a_draining_process_is_only_not_ready() -> None:
    async with service(unready_s=NEVER_S) as serving:
        first = await serving.dial(1)
        task = serving.begin(is_spread=True)
        assert serving.draining.step == UNREADY
        second = await serving.dial(2)
        await until(lambda: serving.metrics.connections == 2)
        assert not serving.draining.closing.is_set() and first.close_reason is None
        serving.draining.request(is_spread=False)
        await ended(task)
        for connection in (first, second):
            reason = await ended(connection.wait_closed())
            assert (reason.code, reason.origin) == (CloseCode.SHUTTING_DOWN, CloseOrigin.REMOTE)
        assert serving.draining.step == FINISHING


async def test_a_closed_door_refuses_connections_and_keeps_those_that_wait_for_their_end() -> None:
    async with service(spread_s=NEVER_S) as serving:
        peers = [await serving.dial(number) for number in (1, 2, 3)]
        tcp = serving.doors.address("tcp")
        assert tcp is not None
        channel = await connect_tcp(tcp, TcpSettings())
        await until(lambda: serving.metrics.connections == 3)
        task = serving.begin(is_spread=True)
        assert (await ended(peers[0].wait_closed())).code == CloseCode.SHUTTING_DOWN
        assert serving.draining.closing.is_set() and serving.draining.step == ENDING
        serving.doors.judge_again()  # a new allow-list hurries nobody
        with pytest.raises(ConnectError) as refused:
            await serving.dial(4)
        assert refused.value.reason is not None and refused.value.reason.code == CloseCode.SHUTTING_DOWN
        with pytest.raises(TransportError):
            other = await connect_tcp(tcp, TcpSettings())
            await other.write(b"!")
            await ended(other.read())
        assert [peer.close_reason for peer in peers[1:]] == [None, None]
        await channel.write(b"served to the end")
        assert await ended(channel.read()) == b"served to the end"
        serving.draining.request(is_spread=False)
        await ended(task)
        assert serving.metrics.connections == 0
        serving.doors.cut_off()
        with pytest.raises(TransportError):
            await ended(channel.read())


async def test_a_stop_ends_all_connections_at_once() -> None:
    async with service(spread_s=NEVER_S) as serving:
        peers = [await serving.dial(number) for number in (1, 2, 3)]
        await until(lambda: serving.metrics.connections == 3)
        await ended(serving.begin(is_spread=False))
        assert {(await ended(peer.wait_closed())).code for peer in peers} == {CloseCode.SHUTTING_DOWN}


async def test_a_connection_whose_handshake_was_under_way_is_ended_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(draining_module, "_LEAVING_S", NEVER_S)
    draining = Draining(DrainSettings(unready_s=0.0, spread_s=0.0))
    connections = ["late"]
    # No connection is open when the endings are collected first, and one just after that.
    collected = iter([()])

    def endings(reason: str) -> Sequence[Sequence[Ending]]:
        return [next(collected, (connections.clear,))]

    await ended(draining.end_connections(lambda reason: None, endings, lambda: len(connections)))
    assert draining.step == FINISHING


async def test_the_document_reports_the_step_and_the_times_of_the_settings() -> None:
    draining = Draining(DrainSettings(unready_s=2.0, spread_s=3.0))
    before = draining.document(5)
    assert (before["step"], before["began_ms"], before["signal"]) == (None, None, None)
    draining.request(is_spread=True)
    after = draining.document(4)
    assert (after["step"], after["connections"]) == (UNREADY, 4) and after["began_ms"] is not None
    assert (after["unready_s"], after["spread_s"]) == (2.0, 3.0)
