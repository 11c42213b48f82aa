"""The job `sds`: `sds.in` and `sds.commands` to the store, the events and the broadcasts of SDS channels.

Each shard's step applies the records to its channels, and its one timer runs their due actions
(`culm_streaming.sds`). The shard of a channel is `shard_of`, which Spark computes by itself: a record in
another partition is accepted as well. Shard n writes partition n of its topics, so that a reader sees a
channel's records in the order in which they were written. One query with one sink writes everything. Workers
keep recently used channels in memory.
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
from culm_streaming.sds.state import StateKind
from culm_streaming.sds.step import TOPICS, Row, SdsOutput, Source, fire_in_pieces, in_order, step_in_pieces
from culm_streaming.stateful.shard_step import (
    Piece,
    ShardStep,
    columns_of,
    step_by_shard,
    with_full_topics,
)
from culm_streaming.stateful.step_processor import Shard
from culm_topics.catalogue.topics import spec
from culm_topics.kafka import admin
from culm_topics.kafka.clients import KafkaSettings


@dataclass(frozen=True, slots=True)
class SdsJobSettings:
    """`channels.shards` is taken from the topic `sds.out`: a value given here is ignored.

    A message may have a MiB, and a micro-batch is held in memory by shard. The limit of records is therefore
    far lower than that of other jobs.
    """

    max_offsets_per_trigger: int = 20_000
    interval_ms: int = 1_000
    """Minimum interval of micro-batches without records, which run due actions."""
    channels: ChannelsSettings = field(default_factory=ChannelsSettings)


def sds_query(session: SparkSession, kafka: KafkaSettings, settings: SdsJobSettings) -> DataFrame:
    """Return the stream of records for Kafka's sink: `topic`, `key`, `value`, `partition`.

    Raises `JobError` if its topics do not exist, or have different numbers of partitions.
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
        (StateKind.SHARD,),
        take=partial(_take, settings=channels, prefix=kafka.prefix),
        fire=partial(_fire, settings=channels),
    )
    return with_full_topics(step_by_shard(rows, step, time_mode="processingTime"), kafka)


JOB = StreamingJob(sds_query, SdsJobSettings, timer_interval_ms=lambda settings: settings.interval_ms)


@lru_cache(maxsize=1)
def _cache(most_weight: int) -> Cache:
    """Return the cache of channels that this worker process keeps in memory."""
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
    """Yield records while the step runs, so that Kafka's client can send the first ones."""
    for records in pieces:
        yield columns_of(
            (topic, key, value, None if topic is Topic.REJECTED else shard.number)
            for topic, key, value in records
        )
    shard.set_timer(output.timer_before_ms, output.timer_ms)
