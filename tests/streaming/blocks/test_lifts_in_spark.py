"""What Spark's own hash gives for an item is what our default lift gives, lane by lane."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from culm_models.lifts import ADD128, Item, pack

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ITEMS: list[Item] = [
    (bytes(range(32)), 0, 1),
    (bytes(32), 2**64 - 1, 2**64 - 1),
    (b"\xff" * 32, 7, 2**63),
]


@pytest.mark.spark
def test_both_lanes_of_add128_are_spark_expressions(spark: SparkSession) -> None:
    from pyspark.sql import functions as f

    frame = spark.createDataFrame([(pack(item),) for item in ITEMS], "item binary")
    rows = frame.select(f.xxhash64("item"), f.xxhash64(f.lit("culm"), "item")).collect()
    lanes = [(first % 2**64, second % 2**64) for first, second in rows]
    assert lanes == [ADD128.lanes(item) for item in ITEMS]
