"""LogConsumer with `sparse` on a real broker: fragments once, then in their place; restarts and groups."""

from __future__ import annotations

import pytest

from culm_models.bamboo.hashes import YAMF, YASMF, HashFlavour
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.logs.consumer import LogConsumer, LogEntry, LogProblem
from culm_topics.logs.records import FragmentRecord, LogRecord, fragment_key, fragment_partition
from culm_topics.records import key_partition, log_key
from tests.support.kafka.topic_io import write_records
from tests.support.p2panda.log_topic import author_key, new_sparse_topics
from tests.support.process.waiting import looks

pytestmark = pytest.mark.kafka

Seen = tuple[str, int, bool]
"""Author's name, sequence number, and whether it came as a fragment."""


def write(
    settings: KafkaSettings, name: str, *numbers: int, sparse: bool, flavour: HashFlavour = YAMF
) -> None:
    """Entries of a bare log, to `fragments` or to `logs`."""
    key = log_key(author_key(name), 0, flavour)
    records: list[tuple[int, bytes | None, bytes | None]] = []
    for number in numbers:
        entry = f"{name}:{number}".encode()
        if sparse:
            partition = fragment_partition(key, settings.partitions or 1)
            value = FragmentRecord(entry, flavour.hash(entry)).encode()
            records.append((partition, fragment_key(key, number), value))
        else:
            partition = key_partition(key, settings.partitions or 1)
            records.append((partition, key, LogRecord(number, entry, b"p", flavour.hash(entry), "").encode()))
    write_records(settings, "fragments" if sparse else "logs", records)


def seen(*entries: LogEntry) -> list[Seen]:
    out = []
    for entry in entries:
        name, _, number = entry.entry_bytes.decode().partition(":")
        assert (entry.public_key, entry.seq_num) == (author_key(name), int(number))
        out.append((name, entry.seq_num, entry.is_sparse))
    return out


def take(consumer: LogConsumer, count: int) -> list[Seen]:
    entries: list[LogEntry] = []
    while len(entries) < count:
        entry = consumer.poll(30)
        assert entry is not None, f"only {seen(*entries)} came"
        entries.append(entry)
    return seen(*entries)


def all_of(settings: KafkaSettings, group_id: str | None = None) -> list[Seen]:
    with LogConsumer(settings, sparse=True, stop_at_end=True, group_id=group_id) as consumer:
        return seen(*consumer)


def test_an_entry_comes_as_a_fragment_and_again_in_its_place(kafka_bootstrap: str) -> None:
    settings = new_sparse_topics(kafka_bootstrap)
    write(settings, "a", 1, sparse=False)
    write(settings, "a", 4, 13, sparse=True)
    with LogConsumer(settings, sparse=True) as consumer:
        assert take(consumer, 3) == [("a", 1, False), ("a", 4, True), ("a", 13, True)]
        standing = consumer.coverage((author_key("a"), 0), YAMF)
        assert (standing.height, standing.missing) == (1, ((2, 4), (5, 13)))
        assert standing.is_provable(13) and not standing.is_provable(12)
        assert consumer.coverage((author_key("a"), 0)).highest == 0, "a log of the other flavour is another"
        (position,) = consumer.log_positions()
        assert (position.log, position.flavour, position.coverage) == ((author_key("a"), 0), YAMF, standing)
        assert (position.handed_out, position.missing) == (((1, 2), (4, 5), (13, 14)), standing.missing)
        assert consumer.fragments_not_remembered == 0
        write(settings, "a", 4, 13, sparse=True)
        write(settings, "a", 2, 3, 4, 5, sparse=False)
        assert take(consumer, 4) == [("a", number, False) for number in (2, 3, 4, 5)]
        assert consumer.coverage((author_key("a"), 0), YAMF).missing == ((6, 13),)
        write(settings, "a", 5, 20, sparse=True)
        assert take(consumer, 1) == [("a", 20, True)]


def test_what_has_joined_its_log_before_the_start_is_no_fragment(kafka_bootstrap: str) -> None:
    settings = new_sparse_topics(kafka_bootstrap)
    write(settings, "a", 2, 3, 9, sparse=True)
    write(settings, "a", *range(1, 5), sparse=False)
    assert all_of(settings) == [*(("a", number, False) for number in range(1, 5)), ("a", 9, True)]


def test_who_does_not_ask_sees_neither_bare_logs_nor_fragments(kafka_bootstrap: str) -> None:
    settings = new_sparse_topics(kafka_bootstrap)
    write(settings, "a", 1, 2, sparse=False)
    write(settings, "b", 1, 2, sparse=False, flavour=YASMF)
    write(settings, "a", 5, sparse=True)
    with LogConsumer(settings, stop_at_end=True, strict=True) as consumer:
        assert list(consumer) == []
        assert consumer.bad_records == 0
    with LogConsumer(settings, stop_at_end=True, bare_logs=True) as consumer:
        entries = list(consumer)
    assert sorted(seen(*entries)) == [("a", 1, False), ("a", 2, False), ("b", 1, False), ("b", 2, False)]
    assert {entry.payload for entry in entries} == {b"p"}


def test_a_group_gets_a_fragment_once_and_still_knows_it_after_a_restart(kafka_bootstrap: str) -> None:
    settings = new_sparse_topics(kafka_bootstrap)
    group = f"{settings.prefix}g"
    write(settings, "a", 1, sparse=False)
    write(settings, "a", 4, 6, sparse=True)
    with LogConsumer(settings, sparse=True, group_id=group) as consumer:
        assert take(consumer, 2) == [("a", 1, False), ("a", 4, True)]
    with LogConsumer(settings, sparse=True, group_id=group) as consumer:
        assert take(consumer, 1) == [("a", 6, True)]
        standing = consumer.coverage((author_key("a"), 0), YAMF)
        assert standing.sparse == ((4, 5), (6, 7))
    write(settings, "a", 4, 8, sparse=True)
    assert all_of(settings, group) == [("a", 8, True)]
    assert all_of(settings, group) == []


def test_two_members_share_logs_and_their_fragments_while_the_group_moves(kafka_bootstrap: str) -> None:
    settings = new_sparse_topics(kafka_bootstrap, partitions=4)
    group = f"{settings.prefix}g"
    names = [f"w{number}" for number in range(30)]
    for name in names:
        write(settings, name, 1, sparse=False)
        write(settings, name, 4, 9, sparse=True)
    wanted = {(name, number, number > 1) for name in names for number in (1, 4, 9)}
    got: list[Seen] = []
    with LogConsumer(settings, sparse=True, group_id=group, auto_commit=None) as first:
        got += take(first, 5)
        first.commit()
        with LogConsumer(settings, sparse=True, group_id=group, auto_commit=None) as second:
            for _ in looks("all entries", progress=got.__len__, step_s=0.0):
                if len(got) >= len(wanted):
                    break
                for member in (first, second):
                    entry = member.poll(0.05)
                    if entry is not None:
                        got += seen(entry)
                        member.commit()
            for name in names:
                standings = [member.coverage((author_key(name), 0), YAMF) for member in (first, second)]
                assert sorted(standing.sparse for standing in standings) == [(), ((4, 5), (9, 10))]
    assert sorted(got) == sorted(wanted)


def test_a_reader_may_begin_at_the_end_and_knows_the_fragments_before(kafka_bootstrap: str) -> None:
    settings = new_sparse_topics(kafka_bootstrap)
    write(settings, "a", 4, sparse=True)
    with LogConsumer(settings, sparse=True, start="end") as consumer:
        write(settings, "a", 4, 6, sparse=True)
        assert take(consumer, 1) == [("a", 6, True)]
        assert consumer.coverage((author_key("a"), 0), YAMF).sparse == ((4, 5), (6, 7))


def test_a_selection_by_author_holds_for_fragments(kafka_bootstrap: str) -> None:
    settings = new_sparse_topics(kafka_bootstrap)
    write(settings, "a", 4, sparse=True)
    write(settings, "b", 4, sparse=True)
    with LogConsumer(settings, sparse=True, stop_at_end=True, public_keys=[author_key("b")]) as consumer:
        assert seen(*consumer) == [("b", 4, True)]


def test_a_fragment_that_is_none_costs_only_itself(kafka_bootstrap: str) -> None:
    settings = new_sparse_topics(kafka_bootstrap)
    key = fragment_key(log_key(author_key("a"), 0, YAMF), 3)
    write_records(settings, "fragments", [(0, b"poison", b"\x80"), (0, key, b"\x80"), (0, key, None)])
    write(settings, "a", 4, sparse=True)
    reported: list[LogProblem] = []
    with LogConsumer(settings, sparse=True, stop_at_end=True, on_problem=reported.append) as consumer:
        assert seen(*consumer) == [("a", 4, True)]
    assert [(problem.code, problem.offset) for problem in reported] == [
        ("topics.record", 0),
        ("topics.record", 1),
    ]
