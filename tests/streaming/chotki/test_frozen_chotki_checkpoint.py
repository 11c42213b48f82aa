"""The job goes on from a checkpoint of an earlier program, and ends as an uninterrupted run does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.freeze.chotki_job import CHECKPOINT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def test_what_waits_in_a_kept_checkpoint_counts_when_its_ground_has_come(
    spark: SparkSession, kafka_bootstrap: str, tmp_path: Path
) -> None:
    CHECKPOINT.assert_goes_on(spark, kafka_bootstrap, tmp_path)
