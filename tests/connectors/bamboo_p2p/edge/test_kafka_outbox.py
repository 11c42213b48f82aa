"""What goes to which topic, and when, without Kafka: the outbox of an edge, and payloads on their way."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from culm_connectors.bamboo_p2p.author import publish
from culm_connectors.bamboo_p2p.edge.awaited_payloads import AwaitedPayloads, ExpectedPayloads
from culm_connectors.bamboo_p2p.edge.log_kinds import LogKinds
from culm_connectors.bamboo_p2p.edge.outbox import DataOrigin, KafkaOutbox
from culm_connectors.bamboo_p2p.edge.tables import open_edge_folder
from culm_connectors.bamboo_p2p.errors import FolderError
from culm_connectors.bamboo_p2p.store.folder_store import FolderStore
from culm_connectors.bamboo_p2p.store.tables import DATABASE_FILE
from culm_connectors.protocols import LOG_PAYLOADS, load
from culm_models.bamboo.hashes import YAMF, YASMF, HashFlavour
from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo_p2p.connection import Changes
from culm_models.bamboo_p2p.peer import NewEntry
from culm_models.bamboo_p2p.requests.proposals import RequestedRange
from culm_models.bamboo_p2p.settings import BambooSettings, Direction
from culm_models.bamboo_p2p.store import HeldEntry
from culm_models.keys import KeyPair
from culm_topics.kafka.origin import Origin
from culm_topics.logs.records import EntryRecord
from tests.models.bamboo_p2p.logs import LOG, Pair, make_log

OWN_AUTHOR = KeyPair.generate(b"author of an outbox")
OUTBOXED: LogKey = (OWN_AUTHOR.public_key, 0)
ORIGIN = Origin("cluster", {"culm.entries": "one"})
OWN = DataOrigin(bytes(32), 0)
PEER = DataOrigin(b"p" * 32, 7, "peer #1")


class OutboxedFolder:
    """A folder of an edge, into which a whole log is brought entry by entry."""

    def __init__(self, path: Path, flavour: HashFlavour = YAMF, payloads: tuple[bytes, ...] = ()) -> None:
        self.source = FolderStore(path / "source", flavour)
        with self.source.exclusively():
            for payload in payloads or (b"payload",) * 20:
                publish(self.source, OWN_AUTHOR, 0, payload)
        self.store, self.tables = open_edge_folder(path / "edge", flavour, ORIGIN, max_spool_bytes=1 << 20)
        self.start()

    def start(self) -> None:
        kinds = LogKinds(self.store, load(LOG_PAYLOADS))
        self.outbox = KafkaOutbox(
            self.store,
            self.tables,
            kinds,
            OWN,
            b"connector" * 2,
            inline_bytes=1_000,
            payload_wait_s=60.0,
        )

    def bring(self, seq_num: int, *, payload: bool = True) -> None:
        entry = self.source.entry(OUTBOXED, seq_num)
        assert entry is not None
        self.store.put_entry(OUTBOXED, entry)
        if payload:
            self.bring_payload(seq_num)
        else:
            self.outbox.received(OUTBOXED, seq_num, PEER)

    def bring_payload(self, seq_num: int) -> None:
        entry = self.source.entry(OUTBOXED, seq_num)
        assert entry is not None
        size = entry.entry.payload_size
        self.store.put_unverified(OUTBOXED, seq_num, 0, self.source.read_payload(OUTBOXED, seq_num, 0, size))
        assert self.store.verify_payload(OUTBOXED, seq_num)
        self.outbox.received(OUTBOXED, seq_num, PEER)

    def due(self) -> tuple[list[tuple[int, bytes]], int, list[int]]:
        """What is due: entries with their payloads, how many fragments, payloads; all is acknowledged."""
        entries: list[tuple[int, bytes]] = []
        fragments = 0
        payloads: list[int] = []
        while due := self.outbox.take():
            numbers = {entry.entry_bytes: entry.entry.seq_num for entry in self.held()}
            records = [EntryRecord.decode(record["value"]) for record in due.entries]
            entries += [(numbers[record.entry], record.operation) for record in records]
            fragments += len(due.fragments)
            payloads += [seq_num for _, _, seq_num, _ in due.payloads]
            self.outbox.acknowledged(due)
        return entries, fragments, payloads

    def held(self) -> list[HeldEntry]:
        return [entry for number in range(1, 21) if (entry := self.store.entry(OUTBOXED, number)) is not None]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[OutboxedFolder]:
    made = OutboxedFolder(tmp_path)
    yield made
    made.store.close()
    made.source.close()


def test_the_gap_free_beginning_goes_to_entries_with_its_payloads(folder: OutboxedFolder) -> None:
    for number in (1, 2, 3):
        folder.bring(number)
    assert folder.due() == ([(1, b"payload"), (2, b"payload"), (3, b"payload")], 0, [])
    assert folder.due() == ([], 0, [])
    assert folder.outbox.waiting_rows == 0 and folder.outbox.waiting_bytes == {"peer #1": 0}


def test_what_stands_beyond_a_gap_joins_when_it_is_closed(folder: OutboxedFolder) -> None:
    for number in (1, 4, 5):
        folder.bring(number)
    assert folder.due() == ([(1, b"payload")], 2, [4, 5])
    for number in (2, 3):
        folder.bring(number)
    assert folder.due() == ([(number, b"payload") for number in (2, 3, 4, 5)], 0, [])


def test_a_gap_that_a_topic_closes_is_closed(folder: OutboxedFolder) -> None:
    folder.bring(3)
    assert folder.due() == ([], 1, [3])
    for number in (1, 2):
        entry = folder.source.entry(OUTBOXED, number)
        assert entry is not None
        folder.store.put_entry(OUTBOXED, entry)
        folder.outbox.seen(OUTBOXED, number, is_gap_free=False)
    assert folder.due() == ([(3, b"payload")], 0, [])


def test_the_newest_entry_waits_for_its_payload(folder: OutboxedFolder) -> None:
    folder.bring(1, payload=False)
    assert folder.due() == ([], 0, [])
    folder.bring_payload(1)
    assert folder.due() == ([(1, b"payload")], 0, [])


@pytest.mark.parametrize("end", ["the next entry", "the connection's end", "word that it does not come"])
def test_an_entry_waits_no_longer_than_its_payload_may_come(folder: OutboxedFolder, end: str) -> None:
    folder.bring(1, payload=False)
    if end == "the next entry":
        folder.bring(2)
    elif end == "the connection's end":
        folder.outbox.forget(PEER.connection)
    else:
        folder.outbox.release(PEER.connection)
    assert folder.due()[0][0] == (1, b"")
    folder.bring_payload(1)
    assert folder.due() == ([], 0, [1])


def test_what_was_not_acknowledged_is_due_after_a_restart(folder: OutboxedFolder) -> None:
    for number in (1, 2, 5):
        folder.bring(number)
    assert folder.outbox.take()
    folder.store.commit()
    folder.start()
    assert folder.due() == ([(1, b"payload"), (2, b"payload")], 1, [5])


def test_a_log_whose_first_payload_is_not_held_is_in_fragments_until_it_is(tmp_path: Path) -> None:
    folder = OutboxedFolder(tmp_path, YASMF)
    folder.bring(1, payload=False)
    folder.bring(2)
    folder.outbox.release(PEER.connection)
    assert folder.due() == ([], 2, [2])
    folder.bring_payload(1)
    assert folder.due() == ([(1, b"payload"), (2, b"payload")], 0, [])


def test_payloads_and_entries_of_topics_find_each_other_in_any_order(folder: OutboxedFolder) -> None:
    awaited = AwaitedPayloads(folder.store, folder.tables, ExpectedPayloads(), max_bytes=100)
    entry = folder.source.entry(OUTBOXED, 1)
    assert entry is not None
    assert awaited.chunk(entry.entry.payload_hash, 0, b"payload") == []
    folder.store.put_entry(OUTBOXED, entry)
    assert awaited.entry(OUTBOXED, entry) and folder.store.has_payload(OUTBOXED, 1)
    second = folder.source.entry(OUTBOXED, 2)
    assert second is not None
    folder.store.put_entry(OUTBOXED, second)
    assert not awaited.entry(OUTBOXED, second)
    assert awaited.chunk(second.entry.payload_hash, 0, b"payload") == [(OUTBOXED, 2)]
    awaited.chunk(YAMF.hash(b"nobody's"), 0, b"x" * 101)
    assert awaited.has_dropped and not folder.tables.unclaimed_bytes()


def test_a_folder_of_other_topics_is_refused_and_a_damaged_one_is_made_anew(tmp_path: Path) -> None:
    folder = OutboxedFolder(tmp_path)
    folder.bring(1)
    folder.store.commit()
    folder.store.close()
    other = Origin("cluster", {"culm.entries": "another"})
    with pytest.raises(FolderError, match="other topics"):
        open_edge_folder(tmp_path / "edge", YAMF, other, max_spool_bytes=1 << 20)
    for path in (tmp_path / "edge").iterdir():
        path.unlink()
    (tmp_path / "edge" / DATABASE_FILE).write_bytes(b"no database at all " * 100)
    store, tables = open_edge_folder(tmp_path / "edge", YAMF, other, max_spool_bytes=1 << 20)
    assert store.logs == [] and tables.topics.kept() == {}
    store.close()
    assert sqlite3.connect(tmp_path / "edge" / DATABASE_FILE).execute("PRAGMA quick_check").fetchone()


ENTRIES = make_log(3)


class Relay:
    """An edge that holds three entries and two payloads, and a reader that asks for all of them."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.expected = ExpectedPayloads(2.0, lambda: self.now_s)
        settings = BambooSettings(expects_payload=lambda log, seq_num: (log, seq_num) in self.expected)
        self.pair = Pair(settings)
        first, second, third = ENTRIES
        self.pair.peers[0].add([first, NewEntry(second.entry_bytes), third])
        self.expected.expect(LOG, 2)
        self.pair.talk()
        self.pair.ends[1].propose(RequestedRange(*LOG, 1, end=3, upper=3, direction=Direction.PULL))
        self.pair.talk()

    def held(self) -> list[bool]:
        """Which payloads the reader holds."""
        return [self.pair.store(1).has_payload(LOG, seq_num) for seq_num in (1, 2, 3)]


def test_what_is_expected_is_sent_when_it_comes() -> None:
    relay = Relay()
    assert relay.held() == [True, False, False]
    relay.pair.peers[0].add(ENTRIES[1:2])
    relay.expected.came(LOG, 2)
    relay.pair.talk()
    assert relay.held() == [True, True, True] and not relay.pair.ends[1].requests


def test_what_does_not_come_is_unavailable_and_nothing_more_is_expected_of_its_log() -> None:
    relay = Relay()
    relay.now_s = 1.9
    assert relay.expected.take_overdue() == []
    relay.now_s = 2.0
    overdue = relay.expected.take_overdue()
    assert overdue == [(LOG, 2)]
    relay.pair.peers[0].notify_connections(Changes(overdue))
    relay.pair.talk()
    assert relay.held() == [True, False, True]
    relay.expected.expect(LOG, 2)
    assert (LOG, 2) not in relay.expected
    relay.expected.came(LOG, 3)
    relay.expected.expect(LOG, 2)
    assert (LOG, 2) in relay.expected
