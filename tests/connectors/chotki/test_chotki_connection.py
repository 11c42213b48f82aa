"""One connection of an edge, without Kafka: what a peer holds is not sent to it, and a slow one is left."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from culm_connectors.chotki.connection import ReplicaConnection
from culm_connectors.chotki.feed.packet_tail import PacketTail, RelayedPacket
from culm_connectors.chotki.feed.peer_holding import PeerHolding, SendDecision
from culm_connectors.chotki.host import EdgeShared
from culm_connectors.chotki.settings import ChotkiEdgeSettings
from culm_connectors.transport.errors import TransportError
from culm_connectors.transport.memory import MemoryChannel, memory_pair
from culm_connectors.url import Url, parse_url
from culm_models.chotki import events
from culm_models.chotki.ids import Id, object_key, vector_key
from culm_models.chotki.packets.live import write_live
from culm_models.chotki.rdx import parse_text, write_vector
from culm_models.chotki.replica import Replica
from culm_models.chotki.tlv import record
from culm_topics.chotki.records import BlockVectorRecord, EpochRecord, FieldRecord, PacketRecord, RecordOrigin
from culm_topics.readers.batch import Batch
from tests.models.chotki.wire import letters, split
from tests.support.chotki.edge import EDGE, edge_shared
from tests.support.process.waiting import until, while_working

OTHER = b"other".ljust(32, b".")


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[EdgeShared]:
    # What these tests are about does not depend on how fast a peer is read.
    settings = ChotkiEdgeSettings(ping_wait_ms=50, max_parcel_bytes=2_048, busy_share=0)
    with edge_shared(tmp_path, settings=settings) as edge_parts:
        yield edge_parts


def relayed(seq: int, text: str, session: tuple[bytes, int] = (OTHER, 1)) -> RelayedPacket:
    id = Id.make(0xB, seq)
    body = record("f", b"\x01") + record("S", parse_text("S", f'"{text}"'))
    after = Id.make(0xB, seq - 1).pro if seq > 1 else 0
    return RelayedPacket(0, seq, id.src, id.pro, after, session, write_live("E", id, Id.make(0xA, 1), body))


def read(tail: PacketTail, packets: Iterable[RelayedPacket]) -> None:
    """The tail as it is when these were read from Kafka."""
    messages, end = [], 0
    for packet in packets:
        value = PacketRecord(
            RecordOrigin(packet.session[0], 0, packet.session[1]), packet.after, packet.packet
        ).encode()
        position = (partial(int, packet.partition), partial(int, packet.offset))
        messages.append(
            SimpleNamespace(value=partial(bytes, value), partition=position[0], offset=position[1])
        )
        end = packet.offset + 1
    tail.take(Batch(cast(Any, tuple(messages)), {("culm.chotki.packets", 0): end}))


async def met(
    shared: EdgeShared, src: int = 0xA
) -> tuple[ReplicaConnection, asyncio.Task[None], MemoryChannel]:
    """A connection whose peer has said its handshake, and reads nothing any more."""
    near, far = memory_pair(4_096)
    connection = ReplicaConnection(shared, near, 1, "peer")
    task = asyncio.create_task(connection.run())
    peer = Replica(src)
    for data in peer.open_session("edge", 0).of("edge"):
        await far.write(data)
    await until(lambda: connection.session.peer is not None)
    return connection, task, far


async def hear(far: MemoryChannel, until_heard: bytes) -> bytes:
    """What the far end reads until this has come."""
    output = b""
    async with while_working():
        while until_heard not in output:
            data = await far.read()
            assert data, "the session is over"
            output += data
    return output


async def test_a_peer_that_takes_nothing_is_deaf_and_costs_no_memory(tmp_path: Path) -> None:
    settings = ChotkiEdgeSettings(ping_wait_ms=50, write_timeout_s=0.2)
    with edge_shared(tmp_path, settings=settings) as shared:
        await leave_the_deaf(shared)


async def leave_the_deaf(shared: EdgeShared) -> None:
    connection, task, _ = await met(shared)
    read(shared.tail, (relayed(seq, "x" * 1_000) for seq in range(1, 1_000)))
    connection.wake()
    async with while_working():
        await task
    assert connection.refusal is not None and connection.refusal.code == "chotki.deaf"
    assert "E b-" in connection.reason and "of a-1" in connection.reason, "the last packets sent are named"
    assert connection.session.state is events.SyncState.NONE
    # It was sent no more than one hand-over of the tail.
    assert connection.feed.holding.vector[0xB] < Id.make(0xB, 600).pro


async def test_a_peer_that_reads_slowly_gets_everything(shared: EdgeShared) -> None:
    connection, task, far = await met(shared)
    read(shared.tail, (relayed(seq, "x" * 1_000) for seq in range(1, 2_000)))
    read(shared.tail, [relayed(2_000, "last")])
    connection.wake()
    output = await hear(far, b"last")
    assert [letter for letter in letters(split(output)) if letter == "E"] == ["E"] * 2_000
    far.abort()
    async with while_working():
        await task


async def test_nothing_returns_to_the_session_that_brought_it(shared: EdgeShared) -> None:
    connection, task, far = await met(shared)
    read(shared.tail, [relayed(1, "own", (EDGE, 1)), relayed(2, "of another")])
    connection.wake()
    assert b"own" not in await hear(far, b"of another")
    far.abort()
    async with while_working():
        await task


def state_of(count: int) -> tuple[list[tuple[bytes, bytes]], EpochRecord]:
    """An epoch in which another replica has so many objects."""
    fields = [
        (object_key(Id.make(0xB, seq, 1), "S"), FieldRecord(b"0" + b"x" * 200).encode())
        for seq in range(1, count + 1)
    ]
    last = Id.make(0xB, count, 1).pro
    vector = write_vector({0: 3, 0xB: last})
    block = vector_key(Id(0xB, 0)), BlockVectorRecord(write_vector({0xB: last})).encode()
    return [*fields, block], EpochRecord(1, vector, ((0, 5),), (), ())


async def test_what_an_epoch_brings_is_streamed_to_a_live_peer_and_then_what_builds_on_it(
    shared: EdgeShared,
) -> None:
    connection, task, far = await met(shared)
    await until(lambda: connection.session.state is events.SyncState.LIVE)
    records, mark = state_of(3_000)
    shared.store.apply(records, mark, {0: len(records)})
    connection.epoch(mark, 0.0)
    # It builds on what the epoch has.
    building = relayed(3_001, "behind")._replace(after=Id.make(0xB, 3_000, 1).pro, offset=7)
    read(shared.tail, [building])
    connection.wake()
    heard = letters(split(await hear(far, b"behind")))
    follow_up = heard[heard.index("V") + 1 :]
    assert follow_up[0] == "H" and follow_up.count("D") > 100 and follow_up.endswith("VE")
    far.abort()
    async with while_working():
        await task


async def test_the_tail_of_a_peer_that_was_forgotten_is_made_good_by_an_epoch(shared: EdgeShared) -> None:
    connection, task, far = await met(shared)
    records, mark = state_of(10)
    read(shared.tail, [relayed(seq, "y") for seq in range(1, 5)])
    shared.store.apply(records, mark, {0: len(records)})
    shared.tail.forget({0: 5})
    assert len(shared.tail) == 0
    connection.epoch(mark, 0.0)
    read(shared.tail, [relayed(11, "after")._replace(after=Id.make(0xB, 10, 1).pro)])
    connection.wake()
    assert letters(split(await hear(far, b"after")))[-4:] == "HDVE"
    far.abort()
    async with while_working():
        await task


async def test_what_finds_no_room_while_kafka_is_slow_ends_the_session_with_a_reason(
    shared: EdgeShared,
) -> None:
    connection, task, far = await met(shared)
    listening = asyncio.create_task(hear(far, b"chotki.spool_full"))
    with contextlib.suppress(TransportError):
        for seq in range(1, 20_000):
            await far.write(relayed(seq, "x" * 1_000).packet)
            if connection.session.closed:
                break
    output = await listening
    assert letters(split(output))[-1] == "B"
    # In memory what the settings allow, the rest on disk: 4 MiB of room, 16 MiB of memory.
    assert 17_000_000 < seq * 1_000 < 21_000_000
    assert shared.spools.used_bytes <= 1 << 22
    async with while_working():
        await task
    assert shared.spools.used_bytes == 0 and connection.publisher.waiting_bytes == 0
    assert connection.refusal is not None and connection.refusal.record == b"", "nothing is wrong with it"


def test_a_packet_goes_to_a_peer_that_holds_what_it_builds_on() -> None:
    holding = PeerHolding()
    first, second, third = (relayed(seq, "x") for seq in (1, 2, 3))
    assert holding.deliver(second) is SendDecision.LATER
    assert [holding.deliver(relayed) for relayed in (first, second, first)] == [
        SendDecision.SEND,
        SendDecision.SEND,
        SendDecision.HELD,
    ]
    assert holding.deliver(third) is SendDecision.SEND
    assert holding.missing({0xB: third.pro, 0xC: 0}) == {0xC: 0}


@pytest.mark.parametrize(
    "url", ["tcp://h", "http://h:1", "tcp://h:1/path", "tcp://:1", "h:1", "tcp://h:99999"]
)
def test_other_addresses_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"address|Port|port"):
        parse_url(url)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("tcp://h:1", Url("tcp", "h", 1)),
        ("quic://[::1]:5", Url("quic", "::1", 5)),
        ("tls://a.b:9/", Url("tls", "a.b", 9)),
    ],
)
def test_addresses(url: str, expected: object) -> None:
    assert parse_url(url) == expected
    assert parse_url(url, default="quic") == expected


def test_an_address_without_a_scheme_has_the_default_one() -> None:
    assert parse_url("[::1]:5", default="tcp") == Url("tcp", "::1", 5)
    with pytest.raises(ValueError, match=r"HOST:PORT, tcp://.*tls://.*quic://"):
        parse_url("http://h:1", default="tcp")


def test_settings_of_the_edge_take_addresses_without_a_scheme() -> None:
    assert ChotkiEdgeSettings(listen=("127.0.0.1:1", "tls://h:2")).listen == (
        "tcp://127.0.0.1:1",
        "tls://h:2",
    )
