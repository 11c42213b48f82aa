"""The job `chotki` on real Spark, killed between its stages, and without a checkpoint whose inputs are gone.

Where each write of the pipeline is the place of a fault: `tests/e2e/test_chotki_kills.py`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import TopicPartition

from culm_streaming.chotki.output_records import OutputStage
from culm_streaming.errors import JobError
from culm_streaming.kafka_io import topics as kafka_io
from culm_streaming.kafka_io.topics import write_stage
from culm_topics.chotki.records import is_epoch_key
from culm_topics.kafka import admin, clients
from culm_topics.kafka.clients import KafkaSettings
from tests.streaming.chotki.test_chotki_epochs import story
from tests.streaming.chotki.test_chotki_on_kafka import produce, run_once
from tests.support.chotki.job import ChotkiJob, ChotkiTopics
from tests.support.kafka.topic_io import end_offsets, read_records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

PARTITIONS = 2


@pytest.fixture
def kafka(kafka_bootstrap: str, topic_prefix: str) -> KafkaSettings:
    settings = KafkaSettings(bootstrap=kafka_bootstrap, prefix=topic_prefix, partitions=PARTITIONS)
    admin.create(settings)
    return settings


DEATHS = (
    (OutputStage.VECTORS, False),
    (OutputStage.MARKS, False),
    (OutputStage.MARKS, True),
    (None, False),
)
"""Before or within which stage; None: behind the last one, before the checkpoint."""


class Killed(Exception):
    """In place of a SIGKILL: nothing is written behind it."""


def die_at(
    fatal_stage: OutputStage | None, *, within: bool = False
) -> Callable[[DataFrame, int, KafkaSettings], None]:
    """A writer of stages that dies before this one, within it, or behind the last one (None)."""

    def write(records: DataFrame, stage: int, kafka: KafkaSettings) -> None:
        if stage == fatal_stage and within:
            write_stage(records.where("partition = 0"), stage, kafka)
        if stage == fatal_stage:
            raise Killed
        write_stage(records, stage, kafka)
        if fatal_stage is None and stage == max(OutputStage):
            raise Killed

    return write


def test_killed_between_any_two_stages_the_job_writes_the_same_again(
    spark: SparkSession, kafka: KafkaSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = ChotkiTopics(PARTITIONS)
    story(topics, 1)
    model = ChotkiJob(topics)
    model.run()
    produce(kafka, topics)
    for fatal_stage, within in DEATHS:
        with monkeypatch.context() as patched:
            patched.setattr(kafka_io, "write_stage", die_at(fatal_stage, within=within))
            with pytest.raises(JobError, match="Python Proxy"):
                run_once(spark, kafka, tmp_path)
        stands = {key for _, key, _ in read_records(kafka, "chotki.state") if key is not None}
        whole = sum(map(is_epoch_key, stands)) == PARTITIONS
        assert whole == (fatal_stage in (OutputStage.TOLD, None)), "an epoch is whole behind all of its marks"
    run_once(spark, kafka, tmp_path)
    written: dict[bytes, set[bytes]] = defaultdict(set)
    for _, key, value in read_records(kafka, "chotki.state"):
        assert key is not None and value is not None
        written[key].add(value)
    assert written == {key: {value} for key, value in model.state.items()}


def test_without_a_checkpoint_and_with_its_inputs_gone_the_job_refuses_to_start(
    spark: SparkSession, kafka: KafkaSettings, tmp_path: Path
) -> None:
    topics = ChotkiTopics(PARTITIONS)
    story(topics, 1)
    produce(kafka, topics)
    run_once(spark, kafka, tmp_path / "first")
    produce(kafka, topics)
    ends = end_offsets(kafka, "chotki.packets")
    gone = [TopicPartition(kafka.topic("chotki.packets"), number, end) for number, end in ends.items()]
    client = clients.admin(kafka)
    for future in client.delete_records(gone).values():
        future.result(30)
    before = read_records(kafka, "chotki.state")
    with pytest.raises(JobError, match="missing in"):
        run_once(spark, kafka, tmp_path / "second")
    assert read_records(kafka, "chotki.state") == before
