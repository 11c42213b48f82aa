"""One connection of an edge, without Kafka: what a peer holds is not sent to it, and a slow one is left."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from culm_connectors.chotki.connection import EdgeShared, ReplicaConnection
from culm_connectors.chotki.peer_holding import Delivery, PeerHolding
from culm_connectors.chotki.relay import PacketTail, RelayedPacket
from culm_connectors.chotki.settings import ChotkiEdgeSettings, parse_url
from culm_connectors.kafka import Batch
from culm_connectors.transport.memory import MemoryChannel, memory_pair
from culm_models.chotki import events
from culm_models.chotki.ids import Id
from culm_models.chotki.packets.live import write_live
from culm_models.chotki.rdx import parse_text
from culm_models.chotki.replica import Replica
from culm_models.chotki.tlv import record
from culm_topics.chotki.records import Bringer, PacketRecord
from tests.support.chotki_edge import EDGE, edge_shared
from tests.support.edge import until

OTHER = b"other".ljust(32, b".")


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[EdgeShared]:
    with edge_shared(
        tmp_path, settings=ChotkiEdgeSettings(max_outgoing_bytes=65_536, ping_wait_ms=50)
    ) as found:
        yield found


def relayed(seq: int, text: str, session: tuple[bytes, int] = (OTHER, 1)) -> RelayedPacket:
    id = Id.make(0xB, seq)
    body = record("f", b"\x01") + record("S", parse_text("S", f'"{text}"'))
    after = Id.make(0xB, seq - 1).pro if seq > 1 else 0
    return RelayedPacket(0, seq, id.src, id.pro, after, session, write_live("E", id, Id.make(0xA, 1), body))


async def met(shared: EdgeShared) -> tuple[ReplicaConnection, asyncio.Task[None], MemoryChannel]:
    """A connection whose peer has said its handshake, and reads nothing any more."""
    near, far = memory_pair(4_096)
    connection = ReplicaConnection(shared, near, 1, "peer")
    task = asyncio.create_task(connection.run())
    peer = Replica(0xA)
    for data in peer.open_session("edge", 0).of("edge"):
        await far.write(data)
    await until(lambda: connection.session.peer is not None)
    return connection, task, far


async def test_a_peer_that_does_not_read_is_left_and_costs_no_more(shared: EdgeShared) -> None:
    connection, task, _ = await met(shared)
    for seq in range(1, 1_000):
        connection.offer(relayed(seq, "x" * 1_000))
        if connection.channel.close_reason is not None:
            break
    async with asyncio.timeout(10):
        await task
    assert seq < 100 and connection.reason == "slow"
    assert connection.session.state is events.SessionState.NONE


async def test_nothing_returns_to_the_session_that_brought_it(shared: EdgeShared) -> None:
    connection, task, far = await met(shared)
    connection.offer(relayed(1, "own", (EDGE, 1)))
    connection.offer(relayed(2, "of another"))
    said = b""
    async with asyncio.timeout(10):
        while b"of another" not in said:
            said += await far.read()
    assert b"own" not in said
    far.abort()
    async with asyncio.timeout(10):
        await task


def test_a_tail_beyond_its_bound_reaches_back_only_so_far(shared: EdgeShared) -> None:
    tail = PacketTail(200, shared.tail.ids)
    packets = [relayed(seq, "x" * 40) for seq in range(1, 8)]
    values = [PacketRecord(Bringer(OTHER, 0, 1), one.after, one.packet).encode() for one in packets]
    messages = [
        SimpleNamespace(value=partial(bytes, value), partition=lambda: 0, offset=partial(int, number))
        for number, value in enumerate(values)
    ]
    tail.take(Batch(cast(Any, tuple(messages)), {("culm.chotki.packets", 0): 7}))
    assert tail.bytes <= 200 and tail.positions == {0: 7}
    first = next(tail.beyond({})).offset
    assert not tail.reaches_back_to({0: first - 1}) and tail.reaches_back_to({0: first})


def test_a_packet_goes_to_a_peer_that_holds_what_it_builds_on() -> None:
    holding = PeerHolding()
    first, second, third = (relayed(seq, "x") for seq in (1, 2, 3))
    assert holding.deliver(second) is Delivery.LATER
    assert [holding.deliver(one) for one in (first, second, first)] == [
        Delivery.SEND,
        Delivery.SEND,
        Delivery.HELD,
    ]
    assert holding.deliver(third) is Delivery.SEND
    assert holding.lacks({0xB: third.pro, 0xC: 0}) == {0xC: 0}


@pytest.mark.parametrize(
    "url", ["tcp://h", "http://h:1", "tcp://h:1/path", "tcp://:1", "h:1", "tcp://h:99999"]
)
def test_other_addresses_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"address|Port|port"):
        parse_url(url)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("tcp://h:1", ("tcp", ("h", 1))),
        ("quic://[::1]:5", ("quic", ("::1", 5))),
        ("tls://a.b:9/", ("tls", ("a.b", 9))),
    ],
)
def test_addresses(url: str, expected: object) -> None:
    assert parse_url(url) == expected
