"""What waits for a slow Kafka, and what is kept of peers' announcements, is bounded in number and bytes."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import cast

import pytest

from culm_connectors.kafka import BatchProducer, ProducerRecord
from culm_connectors.kafka.backlog import Backlog, BatchSender
from culm_connectors.logs import hub
from culm_connectors.logs.hub import LogPublisher
from culm_connectors.p2panda import announcements
from culm_connectors.p2panda.announcements import Announcements, AnnouncementTopic
from culm_connectors.p2panda.interest import Interest
from culm_connectors.p2panda.peer_events import PeerEvents
from culm_models.bamboo.errors import ForkError
from culm_models.p2panda.events import EntryRejected
from culm_topics.errors import RecordError
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.logs.records import ReceiptRecord
from culm_topics.records import RejectedRecord
from culm_topics.topic_spec import MAX_MESSAGE_BYTES
from tests.support.hostile.attacks import forked_logs, unknown_heights
from tests.support.p2panda.logs import author

NOW_MS = 1_800_000_000_000


def test_a_backlog_is_bounded_in_number_and_bytes() -> None:
    backlog = Backlog(3, 100)
    assert [backlog.add(ProducerRecord(key=b"k", value=bytes(9))) for _ in range(4)] == [
        True,
        True,
        True,
        False,
    ]
    assert (len(backlog.take()), len(backlog), backlog.size_bytes) == (3, 0, 0)
    assert backlog.add(ProducerRecord(key=b"k", value=bytes(99)))
    assert not backlog.add(ProducerRecord(key=b"k", value=b""))


def test_a_newer_record_of_the_same_key_takes_the_place_of_the_older() -> None:
    backlog = Backlog(10, 100)
    for size in (80, 90, 10):
        assert backlog.add(ProducerRecord(key=b"a", value=bytes(size)), b"a")
    assert backlog.size_bytes == 11
    assert [record["value"] for record in backlog.take()] == [bytes(10)]


def test_announcements_of_peers_that_left_are_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announcements, "MAX_OWN", 3)
    kept = Announcements({b"stays"})
    assert kept.received(b"stays", 5, b"stays at 5", NOW_MS)
    for number in range(20):
        assert kept.received(b"stranger %d" % number, 1, b"raw", NOW_MS)
    assert kept.kept[0] == 3
    assert kept.read(b"stays", 4, NOW_MS) == b"stays at 5"
    assert kept.read(b"stranger 0", 0, NOW_MS) is None
    assert kept.read(b"stranger 19", 0, NOW_MS) == b"raw"


def test_announcements_are_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announcements, "MAX_OWN_BYTES", 1_000)
    kept = Announcements(set())
    for number in range(100):
        kept.received(b"%d" % number, 1, bytes(300), NOW_MS)
    assert kept.kept == (3, 900)


def test_an_older_or_repeated_announcement_is_no_news() -> None:
    kept = Announcements(set())
    assert kept.read(b"p", 7, NOW_MS) is None
    assert not kept.received(b"p", 6, b"older", NOW_MS)
    assert not kept.received(b"p", 7, b"the same", NOW_MS)
    assert kept.received(b"p", 8, b"newer", NOW_MS)


def test_the_announcement_of_a_peer_that_nobody_has_seen_for_long_is_removed() -> None:
    connected = {b"stays"}
    kept = Announcements(connected)
    # In another connector's records, and in ours.
    assert kept.read(b"long gone", 1, NOW_MS - announcements.FORGOTTEN_MS) is None
    assert kept.read(b"away", 1, NOW_MS - announcements.FORGOTTEN_MS + 1) is None
    kept.received(b"stays", 1, b"stays", NOW_MS - announcements.REPEATED_MS)
    kept.received(b"left", 1, b"left", NOW_MS)
    assert kept.due(NOW_MS) == [(b"stays", b"stays"), (b"long gone", None)]
    assert kept.due(NOW_MS) == []
    assert kept.due(NOW_MS + announcements.REPEATED_MS) == [(b"stays", b"stays"), (b"away", None)]
    last = kept.due(NOW_MS + announcements.FORGOTTEN_MS)
    assert last == [(b"stays", b"stays"), (b"left", None)]
    assert kept.kept == (1, len(b"stays"))
    assert kept.received(b"left", 1, b"left", NOW_MS), "it is news again"


def test_a_peer_that_is_here_is_announced_again_where_another_connector_removes_it() -> None:
    connected = {b"here"}
    kept = Announcements(connected)
    kept.received(b"here", 1, b"raw", NOW_MS)
    kept.read(b"elsewhere", 1, NOW_MS)
    assert (kept.removed(b"here"), kept.removed(b"elsewhere")) == (b"raw", None)
    connected.clear()
    assert kept.removed(b"here") is None
    assert kept.due(NOW_MS + announcements.FORGOTTEN_MS) == []


def test_of_too_many_peers_those_seen_longest_ago_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announcements, "MAX_PEERS", 4)
    kept = Announcements({b"peer 0"})
    for number in range(7):
        kept.received(b"peer %d" % number, 1, b"raw", NOW_MS)
    kept.read(b"peer 1", 1, NOW_MS)
    gone = [(b"peer %d" % number, None) for number in (2, 3, 4)]
    assert kept.due(NOW_MS) == [(b"peer 0", b"raw"), *gone]


class Produced:
    """Takes what is produced."""

    def __init__(self) -> None:
        self.records: dict[str, list[ProducerRecord]] = {}

    async def send(self, topic: str, records: list[ProducerRecord]) -> None:
        self.records.setdefault(topic, []).extend(records)


def publisher_to(produced: Produced) -> tuple[LogPublisher, BatchSender]:
    sender = BatchSender(cast(BatchProducer, produced))
    return LogPublisher(sender, KafkaSettings(bootstrap="nowhere:1"), bytes(32)), sender


async def test_a_refused_record_of_the_largest_size_is_produced_without_its_bytes() -> None:
    produced = Produced()
    publisher, sender = publisher_to(produced)
    error = RecordError("no record")
    for value in (bytes(MAX_MESSAGE_BYTES - 100), b"small"):
        publisher.refused_record(error, ("t", 0, 0), value, None)
    await sender.send()
    records = [RejectedRecord.decode(record["value"]) for record in produced.records["culm.rejected"]]
    assert [record.entry for record in records] == [None, b"small"]
    assert {record.code for record in records} == {"topics.record"}


async def test_bytes_of_refusals_are_let_go_before_their_reasons() -> None:
    produced = Produced()
    publisher, sender = publisher_to(produced)
    for _ in range(100):
        publisher.refused_record(RecordError("no record"), ("t", 0, 0), bytes(1024 * 1024), None)
    await sender.send()
    records = [RejectedRecord.decode(record["value"]) for record in produced.records["culm.rejected"]]
    assert len(records) == 100
    assert 0 < sum(record.entry is not None for record in records) < 10


async def test_a_fork_is_reported_once_with_its_proof_however_often_it_is_brought() -> None:
    produced = Produced()
    publisher, sender = publisher_to(produced)
    events = PeerEvents(publisher, cast(Interest, None), cast(AnnouncementTopic, None))
    branches = [theirs for _, theirs in forked_logs(author("mallory"), 3, 4)]
    for remote, branch in itertools.product((b"a" * 32, b"b" * 32), branches):
        for again in (3, 1, 2, 3):
            entry = branch[again]
            events.on_event(
                EntryRejected(
                    remote,
                    0,
                    ForkError.code,
                    "",
                    entry.entry_bytes,
                    entry.payload_bytes,
                    b"held",
                    blameless=True,
                )
            )
    await sender.send()
    reported = [RejectedRecord.decode(record["value"]) for record in produced.records["culm.rejected"]]
    assert [record.seq_num for record in reported] == [4, 2] * 3, "what comes behind a fork follows from it"
    assert [record.entry for record in reported[1::2]] == [branch[1].entry_bytes for branch in branches]
    assert len(produced.records["culm.entries"]) == 6, "the truth path judges each"
    assert publisher.repeated_faults == 18


async def test_receipts_of_one_peer_leave_room_for_those_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hub, "_MAX_RECEIPTS_A_PEER", 100)
    produced = Produced()
    publisher, sender = publisher_to(produced)
    publisher.receipts(b"m" * 32, unknown_heights(200))
    publisher.receipts(b"a" * 32, unknown_heights(10))
    await sender.send()
    rows = Counter[bytes]()
    for record in produced.records["culm.receipts"]:
        rows[record["key"][:1]] += len(ReceiptRecord.decode(record["value"]).log_heights)
    assert rows == {b"m": 100, b"a": 10}
