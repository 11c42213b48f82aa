"""The jobs go on from checkpoints that an earlier program has made, and end as one uninterrupted run does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from culm_topics.sds.records import SdsOutRecord
from tests.support.freeze import frozen, jobs
from tests.support.freeze.jobs import QUIET
from tests.support.freeze.topics import write
from tests.support.kafka.topic_io import read_all

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from culm_topics.kafka.clients import KafkaSettings

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def said_in_the_quiet_room(kafka: KafkaSettings) -> list[SdsOutRecord]:
    outs = [SdsOutRecord.decode(value) for key, value in read_all(kafka, "sds.out") if key == QUIET.encode()]
    return [out for out in outs if out.kind != "sync"]


def test_every_job_goes_on_from_its_kept_checkpoint(
    spark: SparkSession, kafka_bootstrap: str, tmp_path: Path
) -> None:
    kafka = jobs.settings(kafka_bootstrap)
    later = jobs.restore(kafka, tmp_path)
    first = {out.message_id: out.wire for out in said_in_the_quiet_room(kafka)}
    write(kafka, later)
    jobs.run(spark, kafka, tmp_path / "checkpoints")
    frozen.assert_as_kept(jobs.NAME, jobs.outcome(kafka))
    # A timer of the checkpoint has expired since, and what is said again is known from the state alone.
    again = {out.message_id: out.wire for out in said_in_the_quiet_room(kafka) if out.kind == "retry"}
    assert len(first) == 2 and again == first
