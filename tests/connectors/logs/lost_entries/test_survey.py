"""Which logs cannot go on, by what the index, the two topics and the position of the job say."""

from __future__ import annotations

from pathlib import Path

import pytest

from culm_connectors.kafka import TopicReaders
from culm_connectors.logs.index import LmdbLogStore
from culm_connectors.logs.lost_entries.survey import LostPart, find_lost
from culm_models.p2panda.operations.operation import peek
from culm_topics.kafka.acls import reader_group_prefix
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.kafka.job_positions import publish_positions, read_positions
from culm_topics.logs.records import LogRecord
from culm_topics.records import log_key
from tests.support.logs import author, make_log
from tests.support.topic_io import produce, produce_entries

PARTITIONS = 1
pytestmark = pytest.mark.kafka


async def test_only_what_the_job_can_get_from_nowhere_is_lost(tmp_path: Path, kafka: KafkaSettings) -> None:
    names = ("expired", "to be read", "waits", "whole", "torn", "elsewhere", "of others", "expired, too")
    logs = {name: make_log(author(name), 0, 9) for name in names}
    keys = {name: log_key(*log[0].log) for name, log in logs.items()}
    store = LmdbLogStore(peek, tmp_path / "index")
    held = {"expired": 6, "to be read": 6, "waits": 6, "whole": 4, "torn": 4, "expired, too": 2}
    for name, height in held.items():
        store.append(logs[name][:height])

    on_logs = [
        *((name, 2) for name in ("expired", "to be read", "waits", "torn", "of others")),
        ("whole", 4),
    ]
    truth = [one for name, height in on_logs for one in logs[name][:height]]
    produce(
        kafka,
        "logs",
        [
            (
                log_key(*one.log),
                LogRecord(
                    one.entry.seq_num, one.entry_bytes, one.payload_bytes, one.hash, one.schema_id
                ).encode(),
            )
            for one in truth
        ],
    )
    read = [*logs["waits"][2:6], *logs["expired"][4:6], logs["torn"][7], logs["elsewhere"][2]]
    produce_entries(kafka, [*read, *logs["to be read"][2:6], *logs["of others"][2:4]])

    readers = TopicReaders(kafka, f"{reader_group_prefix(kafka)}test")
    positions = {(kafka.topic("entries"), 0): len(read)}
    found = await find_lost(store, readers, positions, others=True)
    expected = {
        "expired": LostPart(keys["expired"], 2, 3, 6, None),
        "expired, too": LostPart(keys["expired, too"], 0, 1, 2, None),
        "waits": LostPart(keys["waits"], 2, 1, 6, None),
        "torn": LostPart(keys["torn"], 2, 3, 4, 5),
        "elsewhere": LostPart(keys["elsewhere"], 0, 1, 0, 1),
    }
    assert {part.key: part for part in found} == {part.key: part for part in expected.values()}

    own = await find_lost(store, readers, positions)
    assert {part.key for part in own} == {keys[name] for name in expected if name in held}
    some = await find_lost(store, readers, positions, only=[keys["waits"], keys["whole"]])
    assert some == [expected["waits"]]
    for unknown in ({}, {(kafka.topic("entries"), 0): 1_000}):
        # How far the job has read is not known: what is on `entries` may still be read.
        own = await find_lost(store, readers, unknown)
        assert {part.key for part in own} == {keys[name] for name in ("expired", "expired, too", "torn")}
    store.close()


def test_the_position_of_a_job_is_for_everybody_to_see(kafka: KafkaSettings) -> None:
    place, other = (kafka.topic("entries"), 0), (kafka.topic("entries"), 1)
    assert read_positions(kafka, "logs", [place]) == {}
    publish_positions(kafka, "logs", {place: 7})
    assert read_positions(kafka, "logs", [place, other]) == {place: 7}
    assert read_positions(kafka, "blocks", [place]) == {}
