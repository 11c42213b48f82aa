"""`SdsIndex` on the real broker: what the topic says is found, by the next program too, after any doubt."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from culm_topics.catalogue.topics import spec
from culm_topics.errors import KafkaFailure
from culm_topics.kafka import admin
from culm_topics.kafka import clients as kafka
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.readers.partitions import TopicPartitions
from culm_topics.sds.index import SdsIndex
from culm_topics.sds.index_file import IndexFile, IndexFileFailed
from culm_topics.sds.keys import index_key, shard_of
from tests.support.kafka.failing_client import FailsOnce
from tests.support.process.full_disk import leave_no_space, leave_space
from tests.support.sds.topics import PARTITIONS, index_row, sds_settings, write, write_index

pytestmark = pytest.mark.kafka

HERE = "general"
ELSEWHERE = next(
    name for name in map(str, range(99)) if shard_of(name, PARTITIONS) != shard_of(HERE, PARTITIONS)
)


@pytest.fixture
def settings(kafka_bootstrap: str, topic_prefix: str) -> KafkaSettings:
    return sds_settings(kafka_bootstrap, topic_prefix, "sds.index", "sds.messages")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "index.sqlite"


def test_news_is_found_and_the_next_program_reads_only_what_is_new(
    settings: KafkaSettings, path: Path
) -> None:
    write_index(settings, HERE, [(f"m{number}", index_row(number, number)) for number in range(20)])
    write_index(settings, ELSEWHERE, [("m1", index_row(7, 7))])
    with SdsIndex(settings, path) as index:
        assert index.find(HERE, ["m1"]) == {}
        assert index.catch_up() == 21
        assert index.find(HERE, ["m1", "none"]) == {"m1": index_row(1, 1)}
        assert index.find(ELSEWHERE, ["m1"]) == {"m1": index_row(7, 7)}
        assert index.head(HERE, 2) == [(18, "m18"), (19, "m19")]
        assert index.catch_up() == 0
        write_index(settings, HERE, [("m20", index_row(20, 20)), ("m19", None)])
        taken = 0
        while taken < 2:
            taken += index.poll(5.0)
        assert index.head(HERE, 2) == [(18, "m18"), (20, "m20")]
    write_index(settings, HERE, [("m21", index_row(21, 21))])
    with SdsIndex(settings, path) as index:
        assert index.catch_up() == 1
        assert index.count(HERE) == 21
        assert [message_id for message_id, _ in index.page(HERE, (18, "m18"))] == ["m20", "m21"]


def test_only_the_partitions_of_the_channels_are_read(settings: KafkaSettings, path: Path) -> None:
    write_index(settings, HERE, [("m1", index_row(1, 1))])
    write_index(settings, ELSEWHERE, [("m1", index_row(1, 1))])
    with SdsIndex(settings, path, channels=[HERE]) as index:
        assert index.catch_up() == 1
        assert index.count(HERE) == 1
        assert index.count(ELSEWHERE) == 0
    with SdsIndex(settings, path) as index:
        assert index.catch_up() == 1
        assert index.count(ELSEWHERE) == 1


def test_two_programs_share_a_file(settings: KafkaSettings, path: Path) -> None:
    write_index(settings, HERE, [("m1", index_row(1, 1))])
    with SdsIndex(settings, path) as index, SdsIndex(settings, path) as other:
        index.catch_up()
        write_index(settings, HERE, [("m2", index_row(2, 2))])
        index.catch_up()
        other.catch_up()
        assert other.head(HERE) == index.head(HERE) == [(1, "m1"), (2, "m2")]


def test_a_topic_made_anew_empties_the_file(settings: KafkaSettings, path: Path) -> None:
    write_index(settings, HERE, [("m1", index_row(1, 1)), ("m2", index_row(2, 2))])
    with SdsIndex(settings, path, topic_check_seconds=0.0) as index:
        index.catch_up()
        made_anew(settings, "sds.index")
        write_index(settings, HERE, [("m3", index_row(3, 3))])
        while index.head(HERE) != [(3, "m3")]:
            index.poll(0.2)
    made_anew(settings, "sds.index")
    with SdsIndex(settings, path) as index:
        assert index.catch_up() == 0
        assert index.count(HERE) == 0


def test_a_store_made_anew_empties_the_file(settings: KafkaSettings, path: Path) -> None:
    write_index(settings, HERE, [("m1", index_row(1, 1))])
    with SdsIndex(settings, path) as index:
        index.catch_up()
    made_anew(settings, "sds.messages")
    with SdsIndex(settings, path) as index:
        assert index.count(HERE) == 0
        assert index.catch_up() == 1


def test_a_file_that_is_damaged_while_it_is_open_is_filled_anew(settings: KafkaSettings, path: Path) -> None:
    write_index(settings, HERE, [(f"m{number}", index_row(number, number)) for number in range(200)])
    with SdsIndex(settings, path) as index:
        index.catch_up()
    with SdsIndex(settings, path) as index:
        path.write_bytes(path.read_bytes()[:100] + b"\xff" * (path.stat().st_size - 100))
        assert index.find(HERE, ["m1"]) == {}
        write_index(settings, HERE, [("m200", index_row(200, 200))])
        while index.count(HERE) < 201:
            index.poll(0.2)


def test_a_full_disk_makes_the_file_late_and_it_answers_meanwhile(
    settings: KafkaSettings, path: Path
) -> None:
    write_index(settings, HERE, [("m1", index_row(1, 1))])
    with SdsIndex(settings, path) as index:
        index.catch_up()
        leave_no_space(index._file._file)
        write_index(settings, HERE, [(f"n{number}", index_row(number, number)) for number in range(900)])
        with pytest.raises(IndexFileFailed, match="full"):
            while True:
                index.poll(0.2)
        assert index.find(HERE, ["m1"]) == {"m1": index_row(1, 1)}
        leave_space(index._file._file)
        while index.count(HERE) < 901:
            index.poll(0.2)


@pytest.mark.parametrize("call", [1, 2])
def test_an_index_whose_beginning_fails_begins_again(
    settings: KafkaSettings, path: Path, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    write_index(settings, HERE, [("m1", index_row(1, 1))])
    with SdsIndex(settings, path) as index, monkeypatch.context() as patch:
        full = FailsOnce(IndexFile.apply, IndexFileFailed("database or disk is full"))
        away = FailsOnce(TopicPartitions.range_of, KafkaFailure("the broker is away"), call)
        patch.setattr(IndexFile, "apply", full)
        patch.setattr(TopicPartitions, "range_of", away)
        with pytest.raises((KafkaFailure, IndexFileFailed)):
            index.poll(30)
        while not away.has_failed:
            with pytest.raises(KafkaFailure):
                index.catch_up()
        index.catch_up()
        assert full.has_failed
        assert index.find(HERE, ["m1"]) == {"m1": index_row(1, 1)}


def test_a_file_that_is_damaged_in_what_was_reached_is_filled_anew(
    settings: KafkaSettings, path: Path
) -> None:
    write_index(settings, HERE, [("m1", index_row(1, 1))])
    with SdsIndex(settings, path) as index:
        index.catch_up()
    with SdsIndex(settings, path) as index:
        path.write_bytes(path.read_bytes()[:100] + b"\xff" * (path.stat().st_size - 100))
        index._file._file.execute("PRAGMA shrink_memory")
        index._begin()
        assert index.catch_up() == 1


def test_offsets_that_the_topic_does_not_have_are_read_anew(settings: KafkaSettings, path: Path) -> None:
    write_index(settings, HERE, [("m1", index_row(1, 1))])
    with SdsIndex(settings, path) as index:
        index.catch_up()
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute("UPDATE reached SET next_offset = 1000")
    with SdsIndex(settings, path) as index:
        assert index.catch_up() == 1
        assert index.count(HERE) == 1


def test_what_is_no_row_is_passed_over_and_counted(settings: KafkaSettings, path: Path) -> None:
    write(settings, "sds.index", [(HERE, b"\x00", b"x"), (HERE, index_key(HERE, "m1"), b"x")])
    write_index(settings, HERE, [("m1", index_row(1, 1))])
    with SdsIndex(settings, path) as index:
        assert index.catch_up() == 3
        assert index.count(HERE) == 1
        assert index.malformed == 2


def made_anew(settings: KafkaSettings, name: str) -> None:
    """Delete a topic and create it again."""
    client = kafka.admin(settings)
    for future in client.delete_topics([settings.topic(name)]).values():
        future.result(30)
    while admin.list_topics(settings, [spec(name)])[0].exists:
        pass
    admin.create(settings, [spec(name)])
