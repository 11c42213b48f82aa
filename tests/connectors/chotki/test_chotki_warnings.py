"""What is told of packets, sources and gaps (reference 9.2 rules 3 and 9, 10.10), without Kafka."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from culm_connectors.chotki.connection import ReplicaConnection
from culm_connectors.chotki.driver import ChotkiDriver
from culm_connectors.chotki.feed.packet_tail import RelayedPacket
from culm_connectors.chotki.feed.peer_holding import PeerHolding, SendDecision
from culm_connectors.chotki.host import EdgeShared
from culm_connectors.chotki.settings import ChotkiEdgeSettings
from culm_connectors.chotki.warnings.gap_watch import GapWatch
from culm_connectors.chotki.warnings.packet_ids import PacketArrival, PacketIds
from culm_connectors.transport import Identity, TransportSettings
from culm_connectors.transport.memory import MemoryChannel, memory_pair
from culm_models.chotki.ids import Id
from culm_models.chotki.packets.handshake import write_handshake
from culm_models.chotki.packets.live import write_live
from culm_models.chotki.rdx import parse_text, write_vector
from culm_models.chotki.replica import Replica
from culm_models.chotki.tlv import record
from culm_topics.chotki.records import EpochRecord, PacketRecord, RecordOrigin, SessionRecord
from culm_topics.readers.batch import Batch
from culm_topics.records import RejectedRecord
from tests.support.chotki.edge import Acknowledging, edge_shared
from tests.support.process.waiting import until, while_working

NORTH, SOUTH = (RecordOrigin(name.ljust(32, b"."), 0xA, 1) for name in (b"north", b"south"))


@dataclass
class Merged:
    """How far an epoch is."""

    vector: dict[int, int] = field(default_factory=dict)
    packets: dict[int, int] = field(default_factory=dict)


def pro(seq: int) -> int:
    return Id.make(0xB, seq).pro


def packet(seq: int, text: str = "x") -> bytes:
    body = record("f", b"\x01") + record("S", parse_text("S", f'"{text}"'))
    return write_live("E", Id.make(0xB, seq), Id.make(0xA, 1), body)


# What a packet is.


def known(*seqs: int, max_ids: int = 1_000, merged: Merged | None = None) -> PacketIds:
    ids = PacketIds(max_ids, merged or Merged())
    for offset, seq in enumerate(seqs):
        ids.read(0xB, pro(seq), packet(seq), NORTH, partition=0, offset=offset)
    return ids


@pytest.mark.parametrize(
    ("seq", "text", "origin", "expected"),
    [
        (7, "x", NORTH, PacketArrival.NEW),
        (4, "x", NORTH, PacketArrival.LATE),
        (5, "x", NORTH, PacketArrival.REPEATED),
        (5, "x", NORTH._replace(session=9), PacketArrival.REPEATED),
        (5, "x", SOUTH, PacketArrival.LOOP),
        (5, "x", NORTH._replace(peer=0xC), PacketArrival.LOOP),
        (5, "other", NORTH, PacketArrival.REUSED),
    ],
)
def test_what_a_packet_is_that_comes(
    seq: int, text: str, origin: RecordOrigin, expected: PacketArrival
) -> None:
    assert known(5, 6).arrives(0xB, pro(seq), packet(seq, text), origin) is expected


def test_a_packet_below_what_a_diff_brought_is_late() -> None:
    ids = known(merged=Merged(vector={0xB: pro(10)}))
    assert ids.arrives(0xB, pro(9), packet(9), NORTH) is PacketArrival.LATE
    assert ids.read(0xB, pro(9), packet(9), NORTH, partition=0, offset=3) is PacketArrival.LATE


def test_a_packet_that_the_epoch_covers_is_not_late_when_it_is_read_behind_it() -> None:
    ids = known(merged=Merged(vector={0xB: pro(10)}, packets={0: 4}))
    assert ids.read(0xB, pro(9), packet(9), NORTH, partition=0, offset=3) is PacketArrival.NEW


def test_ids_are_known_beyond_the_latest_and_forgotten_beyond_the_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("culm_connectors.chotki.warnings.packet_ids._CHUNK", 10)
    ids = known(*range(1, 100), max_ids=50)
    # Fifty in five arrays, and nine that are not set aside yet.
    for seq in (41, 59, 95, 99):
        assert ids.arrives(0xB, pro(seq), packet(seq), SOUTH) is PacketArrival.LOOP, seq
    assert ids.arrives(0xB, pro(3), packet(3), SOUTH) is PacketArrival.LATE


def test_a_late_packet_goes_to_who_holds_its_source_beyond_it() -> None:
    holding = PeerHolding()
    holding.raise_to({0xB: pro(10)})
    ordinary = RelayedPacket(0, 0, 0xB, pro(5), pro(4), (b"", 0), b"")
    assert holding.deliver(ordinary) is SendDecision.HELD
    assert holding.deliver(ordinary._replace(is_late=True)) is SendDecision.SEND
    assert holding.vector == {0xB: pro(10)}


def test_what_was_before_the_start_is_known_and_not_kept(tmp_path: Path) -> None:
    with edge_shared(tmp_path) as shared:
        shared.tail.begin_at({0: 2})
        new_edge = Edge(cast(Any, None), shared, Acknowledging())
        new_edge.read(packet(1), packet(2), packet(3))
        assert len(shared.tail) == 1
        assert shared.tail.ids.arrives(0xB, pro(1), packet(1), SOUTH) is PacketArrival.REPEATED


# Gaps.


def epoch(packets: int, entry: int | None, commits: int = 0) -> EpochRecord:
    vector = {} if entry is None else {0xB: entry}
    return EpochRecord(1, write_vector(vector), ((0, packets),), (), ((0, commits),))


def test_what_an_epoch_covers_and_does_not_count_is_a_gap_after_a_minute() -> None:
    watch = GapWatch(60)
    watch.packets({0xB: pro(5)}, 0, 10)
    assert watch.check(epoch(9, pro(3)), 0) == {}
    assert watch.check(epoch(10, pro(3)), 1) == {}
    assert watch.check(epoch(10, pro(3)), 60) == {}
    assert watch.check(epoch(10, pro(3)), 61) == {0xB: pro(5)}
    assert watch.check(epoch(11, pro(5)), 62) == {}


def test_a_gap_is_seen_while_its_source_goes_on() -> None:
    watch = GapWatch(60)
    gaps = {}
    for second in range(70):
        watch.packets({0xB: pro(5 + second)}, 0, 10 + second)
        # Each epoch is one packet behind.
        gaps = watch.check(epoch(9 + second, pro(3)), second)
    assert gaps


def test_what_counts_in_time_is_no_gap() -> None:
    watch = GapWatch(60)
    for second in range(200):
        watch.packets({0xB: pro(5 + second)}, 0, 10 + second)
        assert watch.check(epoch(10 + second, pro(4 + second - second % 50)), second) == {}


def test_a_diff_that_no_epoch_has_is_no_gap() -> None:
    watch = GapWatch(60)
    watch.commit({0xB: pro(5)}, 0, 10)
    for second in (0, 100, 200):
        assert watch.check(epoch(99, None, commits=9), second) == {}
    watch.check(epoch(99, None, commits=10), 300)
    assert watch.check(epoch(99, None, commits=10), 400) == {0xB: pro(5)}


# On a connection.


@dataclass
class Edge:
    """An edge without Kafka, and one peer that has said its handshake."""

    driver: ChotkiDriver
    shared: EdgeShared
    producer: Acknowledging
    task: asyncio.Task[None] | None = None

    async def meet(self, peer: Replica) -> tuple[ReplicaConnection, MemoryChannel]:
        near, far = memory_pair(65_536)
        self.task = asyncio.create_task(self.driver.serve(near))
        for data in peer.open_session("edge", 0).of("edge"):
            await far.write(data)
        await until(lambda: any(connection.session.peer for connection in self.driver.connections.values()))
        return next(iter(self.driver.connections.values())), far

    def read(self, *packets: bytes, origin: RecordOrigin = SOUTH) -> None:
        """These packets were read from the topic."""
        values = [PacketRecord(origin, 0, packet).encode() for packet in packets]
        messages = [
            SimpleNamespace(
                value=lambda encoded=encoded: encoded, partition=lambda: 0, offset=lambda at=at: at
            )
            for at, encoded in enumerate(values)
        ]
        self.shared.tail.take(Batch(cast(Any, tuple(messages)), {}))

    async def sessions(self, code: str) -> list[SessionRecord]:
        def found() -> list[SessionRecord]:
            sessions = [SessionRecord.decode(record) for record in self.producer.of("chotki.sessions")]
            return [session for session in sessions if session.code == code]

        await until(found)
        return found()


@pytest.fixture
async def edge(tmp_path: Path) -> AsyncIterator[Edge]:
    driver = ChotkiDriver(Identity.from_private_key(bytes(32)), TransportSettings(), lambda _: None)
    producer = Acknowledging()
    settings = ChotkiEdgeSettings(ping_wait_ms=200, gap_s=60)
    with (
        edge_shared(tmp_path, producer=producer, report=driver.reports.event, settings=settings) as shared,
        writing(driver, shared),
    ):
        new_edge = Edge(driver, shared, producer)
        yield new_edge
        if new_edge.task is not None:
            for connection in tuple(driver.connections.values()):
                connection.channel.abort()
            async with while_working():
                await new_edge.task


@contextlib.contextmanager
def writing(driver: ChotkiDriver, shared: EdgeShared) -> Iterator[None]:
    driver.begin(shared)
    task = asyncio.create_task(driver.write_reports())
    try:
        yield
    finally:
        task.cancel()


@pytest.mark.parametrize(
    ("seq", "text", "origin", "code", "is_produced"),
    [
        (5, "x", SOUTH, "chotki.loop", False),
        (5, "other", SOUTH, "chotki.id_reused", True),
        (4, "x", SOUTH, "chotki.late", True),
    ],
)
async def test_a_packet_that_was_there_is_told_of(
    edge: Edge, seq: int, text: str, origin: RecordOrigin, code: str, is_produced: bool
) -> None:
    edge.read(packet(5), origin=origin)
    _, far = await edge.meet(Replica(0xA))
    for _ in range(3):
        await far.write(packet(seq, text))
    await until(lambda: edge.driver.metrics.warned[code] == 3)
    [session] = await edge.sessions(code)
    assert session.peer == 0xA and "b-" in session.reason
    await until(lambda: bool(edge.producer.of("chotki.packets")) == is_produced)


async def test_a_repeat_by_the_same_way_is_neither_produced_nor_a_loop(edge: Edge) -> None:
    connection, far = await edge.meet(Replica(0xA))
    edge.read(packet(5), origin=connection.origin)
    await far.write(packet(5))
    await until(lambda: edge.driver.metrics.warned["chotki.repeated"] == 1)
    assert edge.producer.of("chotki.packets") == [] and connection.publisher.received_up_to[0xB] == pro(5)


async def test_a_replica_that_was_restored_from_an_old_copy_is_noticed(edge: Edge) -> None:
    peer = Replica(0xB, name="restored")
    edge.read(packet(900))
    await edge.meet(peer)
    [session] = await edge.sessions("chotki.source_restored")
    assert "b-1 to b-384" in session.reason and "started again" in session.reason


async def test_bytes_that_are_refused_are_on_rejected(edge: Edge) -> None:
    connection, far = await edge.meet(Replica(0xA))
    bad = write_live("E", Id.make(0xB, 1), Id(0, 0), b"")
    await far.write(bad)
    await until(lambda: edge.producer.of("rejected"))
    [rejected] = [RejectedRecord.decode(record) for record in edge.producer.of("rejected")]
    assert (rejected.code, rejected.entry) == ("chotki.reference", bad)
    assert connection.traces in rejected.detail
    assert await edge.sessions("chotki.reference")


async def test_a_gap_ends_the_connection_that_brought_it_once_the_peers_diff_is_in(edge: Edge) -> None:
    near, far = memory_pair(65_536)
    edge.task = asyncio.create_task(edge.driver.serve(near))
    peer = Replica(0xA)
    begun = peer.open_session("edge", 0).of("edge")
    await far.write(begun[0])
    await until(lambda: any(connection.session.peer for connection in edge.driver.connections.values()))
    [connection] = edge.driver.connections.values()
    connection.publisher.gaps.packets({0xB: pro(5)}, 0, 10)
    for second in (0, 100):
        connection.check_gaps(epoch(10, pro(3)), second)
    # What is live may build on the diff that is on its way.
    assert not connection.session.is_over
    for answer in peer.receive("edge", await far.read(), 0).of("edge"):
        await far.write(answer)
    await until(lambda: not connection.session.open_syncs)
    for second in (200, 300):
        connection.check_gaps(epoch(10, pro(3)), second)
    assert connection.session.is_over and connection.reason == "gap"
    assert edge.driver.metrics.warned["chotki.gap"] == 1


async def test_a_sync_of_another_edge_that_comes_round_is_dropped(edge: Edge) -> None:
    other = 0xED6F
    edge.shared.source.edges = {other}
    connection, far = await edge.meet(Replica(0xA))
    before = [open_sync.t for open_sync in connection.session.open_syncs]
    for t in (Id.make(other, 3), Id.make(0xE, 3)):
        await far.write(write_handshake(t, 7, write_vector({t.src: t.pro}), bytes(10)))
    await until(lambda: len(connection.session.open_syncs) > len(before))
    assert [open_sync.t for open_sync in connection.session.open_syncs] == [*before, Id.make(0xE, 3)]
    [session] = await edge.sessions("chotki.loop")
    assert str(Id.make(other, 3)) in session.reason
