"""The job `chotki` on real Spark and a real broker."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import pytest

from culm_models.chotki.ids import Id, object_key
from culm_models.chotki.rdx import parse_text, parse_vector
from culm_streaming.chotki.rows import TOPICS
from culm_streaming.run import RunSettings, run_jobs
from culm_topics.chotki.records import (
    BlockVectorRecord,
    EpochRecord,
    FieldJoiner,
    FieldRecord,
    RecordOrigin,
    is_epoch_key,
    is_field_key,
)
from culm_topics.kafka import admin
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.topic_spec import MAX_MESSAGE_BYTES
from tests.streaming.chotki.test_chotki_epochs import NORTH, story
from tests.support.chotki.job import ChotkiJob, ChotkiTopics
from tests.support.kafka.topic_io import read_records, read_rejected, write_records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def produce(kafka: KafkaSettings, topics: ChotkiTopics) -> None:
    for (source, partition), records in topics.records.items():
        write_records(kafka, TOPICS[source], [(partition, key, value) for key, value in records])


def run_once(spark: SparkSession, kafka: KafkaSettings, path: Path) -> None:
    settings = RunSettings(kafka=kafka, checkpoints=str(path), jobs=("chotki",), once=True)
    run_jobs(spark, settings, stop=Event())


def test_the_state_is_what_a_replica_holds_and_marks_stand_behind_it(
    spark: SparkSession, kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    kafka = KafkaSettings(bootstrap=kafka_bootstrap, prefix=topic_prefix, partitions=3)
    admin.create(kafka)
    topics = ChotkiTopics()
    story(topics, 1)
    model = ChotkiJob(topics)
    model.run()
    produce(kafka, topics)
    run_once(spark, kafka, tmp_path)
    first = read_records(kafka, "chotki.state")
    assert {key: value for _, key, value in first if key and not is_epoch_key(key)} == {
        key: value for key, value in model.state.items() if not is_epoch_key(key)
    }
    for partition in range(3):
        keys = [key for number, key, _ in first if number == partition and key is not None]
        kinds = ["field" if is_field_key(key) else "mark" if is_epoch_key(key) else "vector" for key in keys]
        assert kinds == sorted(kinds, key=["field", "vector", "mark"].index)
        assert kinds[-1] == "mark"

    # The same again, and more: from the checkpoint, only what changed.
    more = ChotkiTopics()
    story(more, 2)
    produce(kafka, more)
    for input_partition, records in more.records.items():
        topics.records[input_partition] += records
    model.run()
    run_once(spark, kafka, tmp_path)
    state: dict[bytes, bytes] = {}
    for _, key, value in read_records(kafka, "chotki.state"):
        assert key is not None and value is not None
        state[key] = value
    marks = [EpochRecord.decode(value) for key, value in state.items() if is_epoch_key(key)]
    assert {mark.epoch for mark in marks} == {2}
    assert {tuple(sorted(parse_vector(mark.vector).items())) for mark in marks} == {
        tuple(sorted(model.vector.items()))
    }
    for key, value in state.items():
        if is_field_key(key):
            assert FieldRecord.decode(value).value == FieldRecord.decode(model.state[key]).value
        elif not is_epoch_key(key):
            assert BlockVectorRecord.decode(value) == BlockVectorRecord.decode(model.state[key])
    assert read_rejected(kafka) == []


def fields_in(records: Iterable[tuple[int, bytes | None, bytes | None]]) -> dict[bytes, bytes]:
    """The fields that a reader has of these records of `chotki.state`."""
    joiners: dict[int, FieldJoiner] = defaultdict(FieldJoiner)
    fields = {}
    for offset, (partition, key, value) in enumerate(records):
        if key is None or is_epoch_key(key):
            continue
        whole = joiners[partition].take(offset, key, value or b"")
        if whole is not None and is_field_key(whole[0]):
            fields[whole[0]] = FieldRecord.decode(whole[1]).value
    assert not any([*joiner.incomplete] for joiner in joiners.values())
    return fields


def test_a_job_without_its_checkpoint_goes_on_from_what_it_had_written(
    spark: SparkSession, kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    kafka = KafkaSettings(bootstrap=kafka_bootstrap, prefix=topic_prefix, partitions=2)
    admin.create(kafka)
    topics, more = ChotkiTopics(2), ChotkiTopics(2)
    story(topics, 1)
    story(more, 2)
    # A field that no record holds: the later value replaces all pieces of the earlier one.
    large = object_key(Id.make(0xC, 1, 1), "E")
    for target, letter in ((topics, "a"), (more, "b")):
        operand = parse_text("E", f'{{"{letter * MAX_MESSAGE_BYTES}"}}')
        target.operand(RecordOrigin(NORTH.edge, 0xC, 1), large, operand)
    model = ChotkiJob(topics)
    model.run()
    produce(kafka, topics)
    run_once(spark, kafka, tmp_path / "first")
    before = len(read_records(kafka, "chotki.state"))
    produce(kafka, more)
    for input_partition, records in more.records.items():
        topics.records[input_partition] += records
    model.run()
    run_once(spark, kafka, tmp_path / "second")
    stored = read_records(kafka, "chotki.state")
    state = {key: value for _, key, value in stored if key is not None and value is not None}
    assert {EpochRecord.decode(value).epoch for key, value in state.items() if is_epoch_key(key)} == {2}
    fields = fields_in(stored)
    assert fields == {key: value for key, value in model.values().items() if is_field_key(key)}
    assert len(fields[large]) > 2 * MAX_MESSAGE_BYTES
    assert sum(value is None for _, _, value in stored) == 2, "the pieces of the earlier value"
    # What had not changed is not written again.
    assert len(stored) - before < before
