"""What one peer is sent beyond the diff of its session, a step at a time (reference 9.2, rules 7 to 9)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from culm_connectors.chotki.feed.peer_feed import PeerFeed
from culm_connectors.chotki.host import EdgeShared
from culm_models.chotki.compat import Compat
from culm_models.chotki.ids import Id, block_of, object_key, vector_key
from culm_models.chotki.packets.handshake import read_handshake, write_handshake
from culm_models.chotki.packets.live import write_live
from culm_models.chotki.packets.packet import parse
from culm_models.chotki.rdx import parse_vector, write_vector
from culm_models.chotki.sync.diff import DiffRequest
from culm_models.chotki.tlv import record
from culm_topics.chotki.records import BlockVectorRecord, Bringer, EpochRecord, FieldRecord, PacketRecord
from culm_topics.readers.batch import Batch
from tests.models.chotki.wire import TRACE, letters
from tests.support.chotki_edge import EDGE, edge_shared

T = Id(0xED6E, 0)
SEQS = (1, 2, 0x10001, 0x10002)


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[EdgeShared]:
    with edge_shared(tmp_path) as found:
        yield found


def feed_of(shared: EdgeShared, cut_bytes: int | None = None) -> PeerFeed:
    """Of a peer that holds what every replica does."""

    def request(held: Mapping[int, int], claimed: bytes) -> DiffRequest:
        def handshake(vector: bytes) -> bytes:
            return write_handshake(T, 7, vector, TRACE)

        return DiffRequest(T, dict(held), True, 100, 10_000, cut_bytes, handshake, Compat.DEFAULT, claimed)

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
    found: list[bytes] = []
    while (records := feed.next()) is not None:
        found += records
    return found


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
    vectors = [parse_vector(read_handshake(parse(one)).vector) for one in records if one[:1] == b"h"]
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
        value = PacketRecord(Bringer(EDGE, 0xB, session), 0, packet).encode()
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

    feed, bringer = feed_of(shared), 7
    for one in (feed, own := feed_of(shared)):
        one.holding.raise_to({0xB: Id.make(0xB, SEQS[-1], 1).pro})
    own._session = (EDGE, bringer)
    to_tail(shared, [said(5), said(3)], bringer)
    to_next_epoch(shared)
    for one in (feed, own):
        one.epoch()
    shared.tail.forget({0: 2})
    assert len(shared.tail) == 0
    assert all_of(feed) == [said(3)], "no sync brings it: its source is held beyond it"
    assert all_of(feed) == [] and all_of(own) == []
