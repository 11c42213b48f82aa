"""Following of small topics: their absence, their deletion, limits of memory, and pages while they grow."""

from __future__ import annotations

import pytest

from culm_infra.console.tables import TablePage
from culm_topics.catalogue.topics import spec
from culm_topics.errors import KafkaFailure
from culm_topics.kafka import admin
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.logs.records import coverage_key, coverage_record
from culm_topics.records import HEIGHTS_PEER_ID, log_key
from tests.support.console.opened import keys, opened, page
from tests.support.kafka.broker import delete_topics
from tests.support.kafka.topic_io import produce

pytestmark = pytest.mark.kafka

VALUE = coverage_record([(1, 2)], [], []).encode()


def rows(*numbers: int) -> list[tuple[bytes, bytes | None]]:
    return [
        (coverage_key(HEIGHTS_PEER_ID, log_key(number.to_bytes(32, "big"), 0)), VALUE) for number in numbers
    ]


def authors(found: TablePage) -> list[int]:
    return [int(row.cells["author"], 16) for row in found.rows]


def test_absent_topics_are_shown_as_such_and_read_once_they_exist(
    kafka_bootstrap: str, topic_prefix: str
) -> None:
    kafka = KafkaSettings(bootstrap=kafka_bootstrap, prefix=topic_prefix, partitions=2)
    with opened(kafka) as tables:
        for table in tables.values():
            found = page(table, when=lambda found: "does not exist" in str(found.note))
            assert (list(found.rows), found.complete) == ([], False)
        admin.create(kafka, [spec("coverage")])
        produce(kafka, "coverage", rows(1))
        assert authors(page(tables["bamboo-logs"])) == [1]


def test_a_topic_created_again_is_read_again(kafka: KafkaSettings) -> None:
    produce(kafka, "coverage", rows(1, 2, 3))
    with opened(kafka) as tables:
        table = tables["bamboo-logs"]
        assert authors(page(table)) == [1, 2, 3]
        delete_topics(kafka.bootstrap, kafka.topic("coverage"))
        page(table, when=lambda found: not found.rows)
        admin.create(kafka, [spec("coverage")])
        produce(kafka, "coverage", rows(7))
        found = page(table, when=lambda found: found.rows)
        assert authors(found) == [7]
        assert "created again" in str(found.note)


def test_pages_do_not_shift_while_a_topic_grows(kafka: KafkaSettings) -> None:
    produce(kafka, "coverage", rows(10, 20, 30, 40))
    with opened(kafka) as tables:
        table = tables["bamboo-logs"]
        first = page(table, limit=2)
        assert authors(first) == [10, 20]
        produce(kafka, "coverage", [*rows(5, 15, 25), (rows(20)[0][0], None)])
        page(table, when=lambda found: found.total == 6)
        assert authors(table.page("", str(first.next), 2)) == [25, 30]


def test_a_full_memory_is_stated(kafka: KafkaSettings) -> None:
    produce(kafka, "coverage", rows(*range(30_000)))
    with opened(kafka, max_table_bytes=1024 * 1024) as tables:
        found = page(tables["bamboo-logs"], when=lambda found: "is full" in str(found.note))
        assert "console.max_table_bytes" in str(found.note)
        assert not found.complete
        assert found.total is not None and 0 < found.total < 30_000


def test_a_page_says_how_far_a_topic_was_read_and_as_of_when(kafka: KafkaSettings) -> None:
    produce(kafka, "coverage", rows(1))
    with opened(kafka) as tables:
        found = page(tables["bamboo-logs"])
        later = page(tables["bamboo-logs"], when=lambda later: later.as_of_ms > found.as_of_ms)
        assert keys(later) == keys(found)


def test_without_kafka_a_page_fails_and_says_so() -> None:
    with opened(KafkaSettings(bootstrap="127.0.0.1:9")) as tables:
        for _ in range(20):
            try:
                found = tables["dag-ids"].page("", "", 5)
            except KafkaFailure:
                return
            assert not found.complete
            assert "is being read" in str(found.note)
        raise AssertionError("no page failed")
