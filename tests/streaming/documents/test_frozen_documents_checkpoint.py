"""The job goes on from a checkpoint of an earlier program, and ends as an uninterrupted run does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.freeze import documents_job, frozen
from tests.support.kafka.topic_io import produce
from tests.support.p2panda.documents_job import written

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def test_what_waits_in_a_kept_checkpoint_joins_its_document_when_more_has_come(
    spark: SparkSession, kafka_bootstrap: str, tmp_path: Path
) -> None:
    kafka = documents_job.settings(kafka_bootstrap)
    later = documents_job.restore(kafka, tmp_path)
    before = written(kafka)
    produce(kafka, "logs", later)
    documents_job.run(spark, kafka, tmp_path / "checkpoints")
    frozen.assert_as_kept(documents_job.NAME, written(kafka))
    assert written(kafka) != before
