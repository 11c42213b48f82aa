"""The job `sds`: `sds.in` and `sds.commands` to the store, the events and the broadcasts of SDS channels.

Each shard's step lets its channels take their records, and its one timer lets them do what is due
(`culm_streaming.sds`). The shard of a channel is what `shard_of` says, which Spark computes by
itself: a record that a producer has put elsewhere is taken as well. Shard n writes partition n of its topics,
so that a reader sees a channel's records in the order in which they were written. One query with one sink
writes everything. Workers keep the channels that they have used last in memory.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from culm_streaming.errors import JobError
from culm_streaming.gc_pause import no_garbage_collection
from culm_streaming.jobs import StreamingJob
from culm_streaming.kafka_io.topics import kafka_source
from culm_streaming.sds.cache import Cache
from culm_streaming.sds.output_records import TOPIC_NAMES, OutputRecord, Topic
from culm_streaming.sds.rows import TOPICS, Row, Source, in_order
from culm_streaming.sds.settings import ChannelsSettings
from culm_streaming.sds.state import Kind
from culm_streaming.sds.step import SdsOutput, fire_in_pieces, step_in_pieces
from culm_topics.catalogue.topics import spec
from culm_topics.kafka import admin
from culm_topics.kafka.clients import KafkaSettings

_OUTPUT = "topic int, key binary, value binary, partition int"
_COLUMNS = ("timestamp_ms", "source", "partition", "offset", "key", "value")


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
    names = [name for topic, name in TOPIC_NAMES.items() if topic is not Topic.REJECTED]
    states = admin.list_topics(kafka, [spec(name) for name in names])
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
    written = rows.groupBy("shard").transformWithStateInPandas(
        SdsProcessor(channels, kafka.prefix),
        outputStructType=_OUTPUT,
        outputMode="append",
        timeMode="processingTime",
    )
    topic = F.lit(kafka.topic(TOPIC_NAMES[Topic.REJECTED]))
    for one, name in TOPIC_NAMES.items():
        topic = F.when(F.col("topic") == int(one), F.lit(kafka.topic(name))).otherwise(topic)
    return written.select(topic.alias("topic"), "key", "value", "partition")


JOB = StreamingJob(sds_query, SdsJobSettings, timer_interval_ms=lambda given: given.interval_ms)


@lru_cache(maxsize=1)
def _cache(most_weight: int) -> Cache:
    """The channels that this worker process keeps in memory."""
    return Cache(most_weight)


class SdsProcessor(StatefulProcessor):
    """Runs `step` for each shard of a micro-batch, and `fire` for its expired timer, on Spark's state."""

    def __init__(self, settings: ChannelsSettings, prefix: str) -> None:
        self._settings = settings
        self._prefix = prefix

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the state variable; see `culm_streaming.sds.state`."""
        self._handle = handle
        self._state = SparkState(handle)

    def handleInputRows(self, key: Any, rows: Any, timerValues: TimerValues) -> Iterator[pd.DataFrame]:
        """All rows of one shard and micro-batch, which Spark hands over in several frames."""
        batch_ms = timerValues.getCurrentProcessingTimeInMs()
        cache, output = _cache(self._settings.cache_weight), SdsOutput()
        with no_garbage_collection():
            taken = in_order([row for frame in rows for row in _rows(frame)])
            pieces = step_in_pieces(self._state, taken, batch_ms, self._settings, cache, output, self._prefix)
            yield from _frames(pieces, int(key[0]))
        self._set_timer(output, batch_ms)

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[pd.DataFrame]:
        """The timer of one shard; Spark deletes it afterwards."""
        batch_ms = timerValues.getCurrentProcessingTimeInMs()
        cache, output = _cache(self._settings.cache_weight), SdsOutput()
        with no_garbage_collection():
            pieces = fire_in_pieces(
                self._state, expiredTimerInfo.getExpiryTimeInMs(), batch_ms, self._settings, cache, output
            )
            yield from _frames(pieces, int(key[0]))
        self._set_timer(output, batch_ms)

    def close(self) -> None:
        """Nothing is held open."""

    def _set_timer(self, output: SdsOutput, batch_ms: int) -> None:
        before_ms, timer_ms = output.timer_before_ms, output.timer_ms
        if timer_ms is not None and timer_ms != before_ms:
            # One that has expired is Spark's to delete, after its handler.
            if before_ms is not None and before_ms > batch_ms:
                self._handle.deleteTimer(before_ms)
            self._handle.registerTimer(timer_ms)


def _rows(frame: pd.DataFrame) -> Iterator[Row]:
    return map(Row._make, zip(*(frame[name].tolist() for name in _COLUMNS), strict=True))


def _frames(pieces: Iterator[list[OutputRecord]], shard: int) -> Iterator[pd.DataFrame]:
    """The records while they come: Kafka's client takes the first ones while the step goes on."""
    for records in pieces:
        yield _frame(records, shard)


def _frame(records: list[OutputRecord], shard: int) -> pd.DataFrame:
    topics, keys, values = zip(*records, strict=True)
    numbers = [None if topic is Topic.REJECTED else shard for topic in topics]
    return pd.DataFrame(
        {
            "topic": [int(topic) for topic in topics],
            "key": keys,
            "value": values,
            "partition": pd.array(numbers, dtype="Int32"),
        }
    )


class SparkState:
    """The state of the shard that Spark is calling for.

    One map for all kinds: each state variable is a round trip in the start of each task.
    """

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._blobs = handle.getMapState("blobs", "name binary", "blob binary")

    def load(self, kind: Kind, name: bytes) -> bytes | None:
        """See `State`."""
        row = self._blobs.getValue((_name(kind, name),))
        return None if row is None or row[0] is None else bytes(row[0])

    def save(self, kind: Kind, name: bytes, blob: bytes | None) -> None:
        """See `State`."""
        if blob is None:
            self._blobs.removeKey((_name(kind, name),))
        else:
            self._blobs.updateValue((_name(kind, name),), (blob,))


def _name(kind: Kind, name: bytes) -> bytes:
    return kind.to_bytes(1, "big") + name
