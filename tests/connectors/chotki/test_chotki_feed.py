"""What one peer is sent beyond the diff of its session (reference 9.2), and what is told of sessions."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from culm_connectors.chotki.connection import ReplicaConnection
from culm_connectors.chotki.driver import ChotkiDriver
from culm_connectors.chotki.feed.peer_feed import PeerFeed
from culm_connectors.chotki.host import EdgeShared
from culm_connectors.chotki.reference_peer.copy import copy_replica
from culm_connectors.chotki.reference_peer.peer import ReplicaPeer
from culm_connectors.kafka import ProducerRecord
from culm_connectors.transport import Identity, TransportSettings
from culm_connectors.transport.memory import memory_pair
from culm_models.chotki.compat import Compat
from culm_models.chotki.events import PingReceived, PongReceived
from culm_models.chotki.ids import Id, block_of, object_key, vector_key
from culm_models.chotki.packets.handshake import read_handshake, write_handshake
from culm_models.chotki.packets.live import write_live
from culm_models.chotki.packets.packet import parse
from culm_models.chotki.rdx import parse_vector, write_vector
from culm_models.chotki.replica import Replica
from culm_models.chotki.sync.diff import DiffRequest
from culm_models.chotki.tlv import record
from culm_topics.chotki.records import (
    BlockVectorRecord,
    EpochRecord,
    FieldRecord,
    PacketRecord,
    RecordOrigin,
    SessionRecord,
    VectorRecord,
    source_key,
)
from culm_topics.readers.batch import Batch
from tests.models.chotki.wire import TRACE, letters
from tests.support.chotki.edge import EDGE, edge_shared
from tests.support.process.waiting import until, while_working

T = Id(0xED6E, 0)
SEQS = (1, 2, 0x10001, 0x10002)


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[EdgeShared]:
    with edge_shared(tmp_path) as edge_parts:
        yield edge_parts


def feed_of(shared: EdgeShared, cut_bytes: int | None = None) -> PeerFeed:
    """Of a peer that holds what every replica does."""

    def request(peer_vector: Mapping[int, int], claimed: bytes) -> DiffRequest:
        def handshake(vector: bytes) -> bytes:
            return write_handshake(T, 7, vector, TRACE)

        return DiffRequest(
            T, dict(peer_vector), True, 100, 10_000, cut_bytes, handshake, Compat.DEFAULT, claimed
        )

    feed = PeerFeed(shared.store, shared.tail, (EDGE, 1))
    feed.holding.raise_to(shared.store.vector)
    feed.begin({}, request)
    return feed


def to_next_epoch(shared: EdgeShared) -> None:
    """Objects of b in two blocks."""
    fields = [(object_key(Id.make(0xB, seq, 1), "S"), FieldRecord(b"0" + b"x" * 90).encode()) for seq in SEQS]
    for last in SEQS[1::2]:
        block = BlockVectorRecord(write_vector({0xB: Id.make(0xB, last, 1).pro})).encode()
        fields.append((vector_key(block_of(Id.make(0xB, last))), block))
    vector = write_vector({0: 3, 0xB: Id.make(0xB, SEQS[-1], 1).pro})
    shared.store.apply(fields, EpochRecord(1, vector, (), (), ()), {0: len(fields)})


def all_of(feed: PeerFeed) -> list[bytes]:
    records_sent: list[bytes] = []
    while (records := feed.next()) is not None:
        records_sent += records
    return records_sent


def test_a_sync_of_an_epoch_claims_what_the_peer_lacked_and_is_sent_once(shared: EdgeShared) -> None:
    feed = feed_of(shared)
    to_next_epoch(shared)
    assert all_of(feed) == [], "nothing is due before an epoch"
    feed.epoch()
    records = all_of(feed)
    assert letters(records) == "HDDDDV"
    assert parse_vector(read_handshake(parse(records[0])).vector) == {0xB: Id.make(0xB, SEQS[-1], 1).pro}
    assert feed.holding.vector[0xB] == Id.make(0xB, SEQS[-1], 1).pro
    feed.epoch()
    assert all_of(feed) == [] and feed.progress() is None


def test_a_long_sync_is_cut_and_its_first_part_claims_nothing_of_the_second(shared: EdgeShared) -> None:
    feed = feed_of(shared, cut_bytes=100)
    to_next_epoch(shared)
    feed.epoch()
    records = all_of(feed)
    assert letters(records) == "HDDVHDDV"
    vectors = [parse_vector(read_handshake(parse(record)).vector) for record in records if record[:1] == b"h"]
    assert vectors == [{}, {0xB: Id.make(0xB, SEQS[-1], 1).pro}]


def test_nothing_counts_as_held_before_v_and_a_lost_snapshot_begins_again(shared: EdgeShared) -> None:
    feed = feed_of(shared)
    to_next_epoch(shared)
    feed.epoch()
    begun: list[bytes] = []
    while letters(begun)[-1:] != "D":
        begun += feed.next() or []
    progress = feed.progress()
    assert progress is not None and progress.blocks_total == 2 and progress.bytes_total > 0
    assert 0xB not in feed.holding.vector
    assert feed._snapshot is not None
    feed._snapshot.release()
    again = all_of(feed)
    assert letters(again[letters(again).index("H") :]) == "HDDDDV", "H of one T replaces the sync before"
    assert 0xB in feed.holding.vector


def test_a_feed_that_is_closed_gives_nothing_and_lets_its_snapshot_go(shared: EdgeShared) -> None:
    feed = feed_of(shared)
    to_next_epoch(shared)
    feed.epoch()
    while not feed.next():
        pass
    snapshot = feed._snapshot
    assert snapshot is not None
    feed.close()
    assert feed.next() is None and feed._snapshot is None


def to_tail(shared: EdgeShared, packets: list[bytes], session: int) -> None:
    """Packets of b that this session brought were read, all of partition 0."""
    first = shared.tail.positions.get(0, 0)
    messages = []
    for offset, packet in enumerate(packets, first):
        value = PacketRecord(RecordOrigin(EDGE, 0xB, session), 0, packet).encode()
        messages.append(
            SimpleNamespace(
                value=partial(bytes, value), partition=partial(int, 0), offset=partial(int, offset)
            )
        )
    ends = {("chotki.packets", 0): first + len(packets)}
    shared.tail.take(Batch(cast(Any, tuple(messages)), ends))


def test_a_late_packet_that_the_tail_forgets_during_the_own_diff_goes_out_once(shared: EdgeShared) -> None:
    def said(seq: int) -> bytes:
        return write_live("C", Id.make(0xB, seq), Id(0, 0), record("T", b"0", b"S\0name"))

    feed, origin = feed_of(shared), 7
    for peer_feed in (feed, own := feed_of(shared)):
        peer_feed.holding.raise_to({0xB: Id.make(0xB, SEQS[-1], 1).pro})
    own._session = (EDGE, origin)
    to_tail(shared, [said(5), said(3)], origin)
    to_next_epoch(shared)
    for peer_feed in (feed, own):
        peer_feed.epoch()
    shared.tail.forget({0: 2})
    assert len(shared.tail) == 0
    assert all_of(feed) == [said(3)], "no sync brings it: its source is held beyond it"
    assert all_of(feed) == [] and all_of(own) == []


PEER = 0xA


class Acknowledging:
    """A producer that keeps what it is given."""

    def __init__(self) -> None:
        self.produced: dict[str, list[ProducerRecord]] = {}

    async def send(self, topic: str, records: list[ProducerRecord], _: int | None = None) -> int:
        self.produced.setdefault(topic, []).extend(records)
        return 1

    def sessions(self) -> list[SessionRecord]:
        return [
            SessionRecord.decode(record["value"]) for record in self.produced.get("culm.chotki.sessions", ())
        ]


class LiveEdge:
    """An edge with one peer that is live, and what the edge tells."""

    def __init__(self, driver: ChotkiDriver, producer: Acknowledging) -> None:
        self.driver = driver
        self.producer = producer

    @property
    def connection(self) -> ReplicaConnection:
        return next(iter(self.driver.connections.values()))

    async def watch(self) -> list[SessionRecord]:
        """The lines that a look adds."""
        before = len(self.producer.sessions())
        self.driver.reports.watch(tuple(self.driver.connections.values()))
        for _ in range(5):
            await asyncio.sleep(0)
        return self.producer.sessions()[before:]

    def held(self) -> list[ProducerRecord]:
        return self.producer.produced.get("culm.chotki.vectors", [])


@pytest.fixture
async def live_edge(tmp_path: Path) -> AsyncIterator[LiveEdge]:
    driver = ChotkiDriver(Identity.from_private_key(bytes(32)), TransportSettings(), lambda _: None)
    producer = Acknowledging()
    near, far = memory_pair()
    peer = ReplicaPeer(Replica(PEER, name="peer"))
    with edge_shared(tmp_path, producer=producer, report=driver.reports.event) as shared:
        driver.begin(shared)
        writing = asyncio.create_task(driver.write_reports())
        talking = [asyncio.create_task(driver.serve(near)), asyncio.create_task(peer.run_session(far))]
        try:
            await until(lambda: any(session.state == "SendLive" for session in producer.sessions()))
            yield LiveEdge(driver, producer)
        finally:
            far.abort()
            await asyncio.gather(*talking, return_exceptions=True)
            writing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await writing


async def test_a_session_that_is_live_has_a_line_at_once(live_edge: LiveEdge) -> None:
    live = next(session for session in live_edge.producer.sessions() if session.state == "SendLive")
    assert (live.peer, live.mode, live.open_syncs) == (PEER, 7, ())
    assert live.trace and live.peer_trace


async def test_a_line_comes_only_when_something_moved(live_edge: LiveEdge) -> None:
    await until(lambda: live_edge.connection.session.progress()[1].blocks_done == 1)
    await live_edge.watch()
    assert await live_edge.watch() == []
    live_edge.driver.reports.event(live_edge.connection, PingReceived())
    live_edge.driver.reports.event(live_edge.connection, PongReceived())
    [line] = await live_edge.watch()
    assert (line.pings, line.pongs) == (1, 1)
    assert line.received.blocks_done == line.received.blocks_total == 1
    assert line.received.bytes_done > 0


async def test_what_a_peer_holds_is_told_when_it_is_more(live_edge: LiveEdge) -> None:
    await live_edge.watch()
    [first] = live_edge.held()
    assert first["key"] == source_key(PEER)
    record = VectorRecord.decode(first["value"])
    assert parse_vector(record.vector) == live_edge.connection.feed.holding.vector
    assert record.epoch == 0
    await live_edge.watch()
    assert len(live_edge.held()) == 1
    live_edge.connection.feed.holding.raise_to({0xB: 4096})
    await live_edge.watch()
    assert parse_vector(VectorRecord.decode(live_edge.held()[1]["value"]).vector)[0xB] == 4096


async def test_a_diff_that_is_on_its_way_is_told_of_with_how_far_it_is(
    live_edge: LiveEdge, caplog: pytest.LogCaptureFixture
) -> None:
    near, far = memory_pair()
    slow = Replica(0xB, name="slow")
    serving = asyncio.create_task(live_edge.driver.serve(near))
    await far.write(b"".join(slow.open_session("edge", 0).of("edge")))
    head, *_ = slow.receive("edge", await far.read(), 0).of("edge")
    await far.write(head)  # a D; V is not said yet
    connection = max(live_edge.driver.connections.values(), key=lambda candidate: candidate.number)
    await until(lambda: connection.session.progress()[1].blocks_done)
    with caplog.at_level("INFO"):
        lines = await live_edge.watch()
    assert f"received 1 of 1 blocks of the diff, {len(head)} bytes" in caplog.text
    [line] = [line for line in lines if line.peer == 0xB]
    [sync] = line.open_syncs
    assert (sync.src, sync.bytes) == (0xB, len(head))
    far.abort()
    await serving


async def test_who_only_reads_everything_is_no_peer(live_edge: LiveEdge) -> None:
    near, far = memory_pair()
    serving = asyncio.create_task(live_edge.driver.serve(near))
    async with while_working():
        await copy_replica(far)
        await serving
    await live_edge.watch()
    assert [record["key"] for record in live_edge.held()] == [source_key(PEER)]


async def test_a_session_that_is_over_has_a_last_line(live_edge: LiveEdge) -> None:
    live_edge.connection.close()
    await until(
        lambda: live_edge.producer.sessions()[-1].state == "SendNone" and not live_edge.driver.connections
    )
    assert live_edge.held()
