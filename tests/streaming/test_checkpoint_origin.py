"""A checkpoint is continued with the very topics that it was made with, or not at all."""

from __future__ import annotations

import time
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaException

from culm_streaming.errors import CheckpointError, StateLayoutError
from culm_streaming.kafka_io import watch as kafka_watch
from culm_streaming.progress import BatchProgress
from culm_streaming.run import RunSettings, run_jobs
from culm_streaming.supervision.checkpoint import FILE, Belonging, Checkpoint
from culm_topics.catalogue.topics import spec
from culm_topics.errors import KafkaFailure, OriginChanged, TopicMissing
from culm_topics.kafka import admin, clients
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.kafka.origin import Origin
from tests.support.kafka.topic_io import end_offsets, produce_entries, read_logs
from tests.support.p2panda.logs import author, make_log
from tests.support.process.waiting import looks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

ALICE = author("alice")


def deployment(bootstrap: str, prefix: str) -> KafkaSettings:
    settings = KafkaSettings(bootstrap=bootstrap, prefix=prefix, partitions=1)
    admin.create(settings, [spec(name) for name in ("entries", "logs", "rejected")])
    return settings


def create_anew(settings: KafkaSettings, name: str) -> None:
    """Delete a topic and create it again; returns when the new one takes records."""
    client, topic = clients.admin(settings), settings.topic(name)
    before = admin.list_topics(settings, [spec(name)])[0].topic_id
    client.delete_topics([topic])[topic].result(30)
    for _ in looks(f"{topic} made anew"):
        if admin.list_topics(settings, [spec(name)])[0].topic_id not in (None, before):
            return
        try:
            admin.create(settings, [spec(name)])
        except (KafkaException, KafkaFailure):
            continue


def ends(settings: KafkaSettings, name: str) -> list[int]:
    return list(end_offsets(settings, name).values())


def run_once(spark: SparkSession, kafka: KafkaSettings, checkpoints: Path) -> None:
    settings = RunSettings(kafka=kafka, checkpoints=str(checkpoints), jobs=("logs",), once=True)
    run_jobs(spark, settings, stop=Event())


def test_a_topic_created_anew_and_grown_past_the_checkpoint_is_refused(
    spark: SparkSession, kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    kafka = deployment(kafka_bootstrap, topic_prefix)
    produce_entries(kafka, make_log(ALICE, 0, 8))
    run_once(spark, kafka, tmp_path)
    create_anew(kafka, "entries")
    produce_entries(kafka, make_log(ALICE, 1, 9))
    with pytest.raises(OriginChanged, match=r"entries was deleted and created again"):
        run_once(spark, kafka, tmp_path)
    assert sum(ends(kafka, "logs")) == 8


def test_a_topic_that_is_written_and_was_created_anew_is_refused(
    spark: SparkSession, kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    kafka = deployment(kafka_bootstrap, topic_prefix)
    produce_entries(kafka, make_log(ALICE, 0, 2))
    run_once(spark, kafka, tmp_path)
    create_anew(kafka, "logs")
    with pytest.raises(OriginChanged, match=r"logs was deleted and created again") as error:
        run_once(spark, kafka, tmp_path)
    assert str(tmp_path / "logs") in str(error.value.hint)
    assert sum(ends(kafka, "logs")) == 0


def test_a_checkpoint_of_another_prefix_is_refused_and_unharmed(
    spark: SparkSession, kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    first, second = (deployment(kafka_bootstrap, f"{topic_prefix}{name}.") for name in ("w1", "w2"))
    log = make_log(ALICE, 0, 4)
    produce_entries(first, log[:2])
    run_once(spark, first, tmp_path)
    produce_entries(second, make_log(ALICE, 1, 9))
    with pytest.raises(OriginChanged, match=r"the topics were .*w1\.entries, .* and are .*w2\.entries"):
        run_once(spark, second, tmp_path)
    # One that an older version made has no file of ours, and Spark's own offsets name the topics.
    (tmp_path / "logs" / FILE).unlink()
    with pytest.raises(OriginChanged, match=r"w1\.entries"):
        run_once(spark, second, tmp_path)
    assert sum(ends(second, "logs")) == 0
    produce_entries(first, log[2:])
    run_once(spark, first, tmp_path)
    assert [len(records) for records in read_logs(first).values()] == [4]


def test_state_partitions_are_fixed_for_the_life_of_a_checkpoint(
    spark: SparkSession, kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    kafka = deployment(kafka_bootstrap, topic_prefix)
    produce_entries(kafka, make_log(ALICE, 0, 2))
    checkpoint = Checkpoint(spark, str(tmp_path / "logs"))
    assert checkpoint.committed_ms() is None
    before_ms = int(time.time() * 1000) - 1_000  # a file system may keep whole seconds
    run_once(spark, kafka, tmp_path)
    committed_ms = checkpoint.committed_ms()
    assert committed_ms is not None
    assert before_ms <= committed_ms <= time.time() * 1000
    other = spark.newSession()
    other.conf.set("spark.sql.shuffle.partitions", "3")
    with pytest.raises(StateLayoutError, match="has 2 state partitions, not 3"):
        run_once(other, kafka, tmp_path)


def test_topics_created_anew_before_anything_was_read_are_taken(
    spark: SparkSession, kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    kafka = deployment(kafka_bootstrap, topic_prefix)
    ids = dict.fromkeys(map(kafka.topic, ("entries", "logs", "rejected")), "another id")
    checkpoint = Checkpoint(spark, str(tmp_path / "logs"))
    checkpoint.bind(Belonging(Origin("another cluster", ids), 2))
    run_once(spark, kafka, tmp_path)
    belonging = checkpoint.belonging()
    assert belonging is not None and belonging.origin != Origin("another cluster", ids)


def test_a_topic_created_anew_while_it_is_read_ends_the_run(
    spark: SparkSession,
    kafka_bootstrap: str,
    topic_prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kafka_watch, "INTERVAL_SECONDS", 0.2)
    kafka = deployment(kafka_bootstrap, topic_prefix)
    produce_entries(kafka, make_log(ALICE, 0, 2))
    changed = Thread(target=create_anew, args=(kafka, "rejected"))

    def on_progress(_progress: BatchProgress) -> None:
        changed.start()

    settings = RunSettings(kafka=kafka, checkpoints=str(tmp_path), jobs=("logs",))
    # A slow broker is asked, too, while the topic is away.
    pattern = "rejected was deleted and created again|topics do not exist: .*rejected"
    with pytest.raises((OriginChanged, TopicMissing), match=pattern):
        run_jobs(spark, settings, stop=Event(), on_progress=on_progress)
    changed.join(60)
    assert not spark.streams.active


def test_a_checkpoint_on_a_file_system_without_its_jars_says_which_command_fetches_them(
    spark: SparkSession, kafka_bootstrap: str, topic_prefix: str
) -> None:
    kafka = deployment(kafka_bootstrap, topic_prefix)
    settings = RunSettings(kafka=kafka, checkpoints="s3a://culm/checkpoints", jobs=("logs",), once=True)
    pattern = r"s3a://culm/checkpoints/logs cannot be used: .*S3AFileSystem not found"
    with pytest.raises(CheckpointError, match=pattern) as error:
        run_jobs(spark, settings, stop=Event())
    assert error.value.hint == "its classes are in further jars: `culm jars fetch --with s3`"
