"""The shard that the job `sds` computes in Spark is the partition that producers choose."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from culm_topics.sds.keys import shard_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHANNELS = ["general", "lobby", "kanal ü", *(f"channel {number}" for number in range(200))]


@pytest.mark.spark
@pytest.mark.parametrize("partitions", [1, 7, 8, 1_000])
def test_sparks_hash_of_a_channel_id_is_ours(spark: SparkSession, partitions: int) -> None:
    from pyspark.sql import functions as f

    frame = spark.createDataFrame([(channel.encode(),) for channel in CHANNELS], "key binary")
    rows = frame.select(f.pmod(f.xxhash64("key"), f.lit(partitions))).collect()
    assert [row[0] for row in rows] == [shard_of(channel, partitions) for channel in CHANNELS]
