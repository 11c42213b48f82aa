"""The job `sds`: `sds.in` and `sds.commands` to the store, the events and the broadcasts of SDS channels.

Each shard's step lets its channels take their records, and its one timer lets them do what is due
(`culm_streaming.sds`). The shard of a channel is what `shard_of` says, which Spark computes by
itself: a record that a producer has put elsewhere is taken as well. Shard n writes partition n of its topics,
so that a reader sees a channel's records in the order in which they were written. One query with one sink
writes everything. Workers keep the channels that they have used last in memory.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from culm_streaming.errors import JobError
from culm_streaming.jobs import StreamingJob
from culm_streaming.kafka_io.topics import kafka_source
from culm_streaming.sds.output_records import OutputRecord, Topic
from culm_streaming.sds.record import Cache
from culm_streaming.sds.settings import ChannelsSettings
from culm_streaming.sds.state import Kind
from culm_streaming.sds.step import TOPICS, Row, SdsOutput, Source, fire_in_pieces, in_order, step_in_pieces
from culm_streaming.stateful.shard_step import (
    Piece,
    Shard,
    ShardStep,
    columns_of,
    step_by_shard,
    with_full_topics,
)
from culm_topics.catalogue.topics import spec
from culm_topics.kafka import admin
from culm_topics.kafka.clients import KafkaSettings


@dataclass(frozen=True, slots=True)
class SdsJobSettings:
    """`channels.shards` is taken from the topic `sds.out`: what is given here does not count.

    A message may have a MiB, and a micro-batch is held in memory by shard: hence far fewer records at a time
    than other jobs take.
    """

    max_offsets_per_trigger: int = 20_000
    interval_ms: int = 1_000
    """Micro-batches run also without records, for what is due: at most so often."""
    channels: ChannelsSettings = field(default_factory=ChannelsSettings)


def sds_query(session: SparkSession, kafka: KafkaSettings, settings: SdsJobSettings) -> DataFrame:
    """The stream of records for Kafka's sink: `topic`, `key`, `value`, `partition`.

    Raises `JobError` when its topics do not exist, or have different numbers of partitions.
    """
    states = admin.list_topics(kafka, [spec(topic) for topic in Topic if topic is not Topic.REJECTED])
    partitions = {state.partitions for state in states}
    if len(partitions) != 1 or not (shards := partitions.pop()):
        raise JobError(
            "the job sds failed: its topics do not exist, or do not have the same number of partitions"
        )
    channels = replace(settings.channels, shards=shards)
    records = kafka_source(
        session, kafka, tuple(TOPICS.values()), max_offsets_per_trigger=settings.max_offsets_per_trigger
    )
    is_command = F.col("topic") == kafka.topic(TOPICS[Source.COMMANDS])
    rows = records.select(
        F.pmod(F.xxhash64("key"), F.lit(shards)).cast("int").alias("shard"),
        F.unix_millis("timestamp").alias("timestamp_ms"),
        F.when(is_command, int(Source.COMMANDS)).otherwise(int(Source.IN)).alias("source"),
        "partition",
        "offset",
        "key",
        "value",
    )
    step = ShardStep(
        (Kind.SHARD,),
        take=partial(_take, settings=channels, prefix=kafka.prefix),
        fire=partial(_fire, settings=channels),
    )
    return with_full_topics(step_by_shard(rows, step, time_mode="processingTime"), kafka)


JOB = StreamingJob(sds_query, SdsJobSettings, timer_interval_ms=lambda given: given.interval_ms)


@lru_cache(maxsize=1)
def _cache(most_weight: int) -> Cache:
    """The channels that this worker process keeps in memory."""
    return Cache(most_weight)


def _take(shard: Shard, packed: list[Any], *, settings: ChannelsSettings, prefix: str) -> Iterator[Piece]:
    cache, output = _cache(settings.cache_weight), SdsOutput()
    rows = in_order(list(map(Row._make, packed)))
    pieces = step_in_pieces(shard.state, rows, shard.batch_ms, settings, cache, output, prefix)
    return _written(shard, pieces, output)


def _fire(shard: Shard, expiry_ms: int, *, settings: ChannelsSettings) -> Iterator[Piece]:
    cache, output = _cache(settings.cache_weight), SdsOutput()
    pieces = fire_in_pieces(shard.state, expiry_ms, shard.batch_ms, settings, cache, output)
    return _written(shard, pieces, output)


def _written(shard: Shard, pieces: Iterator[list[OutputRecord]], output: SdsOutput) -> Iterator[Piece]:
    """The records while they come: Kafka's client takes the first ones while the step goes on."""
    for records in pieces:
        yield columns_of(
            (topic, key, value, None if topic is Topic.REJECTED else shard.number)
            for topic, key, value in records
        )
    shard.set_timer(output.timer_before_ms, output.timer_ms)
