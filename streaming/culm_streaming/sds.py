"""The job `sds`: `sds.in` and `sds.commands` to the store, the events and the broadcasts of SDS channels.

Records are packed by shard before the shuffle; behind it each shard's step lets its channels take them, and
its one timer lets them do what is due (`culm_streaming.sds_channels`). Shard n writes partition n of its
topics, so that a reader sees a channel's records in the order in which they were written. One query with one
sink writes everything. Workers keep the channels that they have used last in memory.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from culm_streaming.errors import JobError
from culm_streaming.sds_channels.cache import Cache
from culm_streaming.sds_channels.rows import TOPICS, Row, Shards, pack_rows, unpack_rows
from culm_streaming.sds_channels.settings import ChannelsSettings
from culm_streaming.sds_channels.state import Kind
from culm_streaming.sds_channels.step import Output, fire, step
from culm_streaming.sds_channels.told import TOPIC_NAMES, Record, Topic
from culm_streaming.topics import kafka_source
from culm_topics import admin
from culm_topics.catalogue import spec
from culm_topics.kafka import KafkaSettings

_PACKED = "shard int, heads binary, bodies binary"
_ARROW = pa.schema([("shard", pa.int32()), ("heads", pa.binary()), ("bodies", pa.binary())])
_OUTPUT = "topic int, key binary, value binary, partition int"
_COLUMNS = ("timestamp", "topic", "partition", "offset", "key", "value")
_FRAME_BYTES = 16 * 1024 * 1024
_FRAME_RECORDS = 10_000

Batches = Iterator[pa.RecordBatch]


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
    rows = kafka_source(
        session, kafka, tuple(TOPICS.values()), max_offsets_per_trigger=settings.max_offsets_per_trigger
    ).select(*_COLUMNS)
    sources = {kafka.topic(name): int(source) for source, name in TOPICS.items()}
    written = (
        rows.mapInArrow(_packer(sources, shards), _PACKED)
        .groupBy("shard")
        .transformWithStateInPandas(
            SdsProcessor(channels, kafka.prefix),
            outputStructType=_OUTPUT,
            outputMode="append",
            timeMode="processingTime",
        )
    )
    topic = F.lit(kafka.topic(TOPIC_NAMES[Topic.REJECTED]))
    for one, name in TOPIC_NAMES.items():
        topic = F.when(F.col("topic") == int(one), F.lit(kafka.topic(name))).otherwise(topic)
    return written.select(topic.alias("topic"), "key", "value", "partition")


def _packer(sources: dict[str, int], shards: int) -> Any:
    def pack(batches: Batches) -> Batches:
        known = Shards(shards)
        for batch in batches:
            for packed in pack_rows(_rows(batch, sources), known):
                row = {"shard": packed.shard, "heads": packed.heads, "bodies": packed.bodies}
                yield pa.RecordBatch.from_pylist([row], _ARROW)

    return pack


def _rows(batch: pa.RecordBatch, sources: dict[str, int]) -> Iterator[Row]:
    times = pc.cast(batch["timestamp"], pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64())
    columns = (batch[name].to_pylist() for name in _COLUMNS[1:])
    for time_ms, topic, partition, offset, key, value in zip(times.to_pylist(), *columns, strict=True):
        yield Row(time_ms, sources[topic], partition, offset, key, value)


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
        """Name the state variables; see `culm_streaming.sds_channels.state`."""
        self._handle = handle
        self._state = SparkState(handle)

    def handleInputRows(self, key: Any, rows: Any, timerValues: TimerValues) -> Iterator[pd.DataFrame]:
        """All packed rows of one shard and micro-batch, which Spark hands over in several frames."""
        packed = [record for frame in rows for record in zip(frame["heads"], frame["bodies"], strict=True)]
        batch_ms = timerValues.getCurrentProcessingTimeInMs()
        cache = _cache(self._settings.cache_weight)
        output = step(self._state, unpack_rows(packed), batch_ms, self._settings, cache, self._prefix)
        yield from self._written(int(key[0]), output, batch_ms)

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[pd.DataFrame]:
        """The timer of one shard; Spark deletes it afterwards."""
        batch_ms = timerValues.getCurrentProcessingTimeInMs()
        cache = _cache(self._settings.cache_weight)
        output = fire(self._state, expiredTimerInfo.getExpiryTimeInMs(), batch_ms, self._settings, cache)
        yield from self._written(int(key[0]), output, batch_ms)

    def close(self) -> None:
        """Nothing is held open."""

    def _written(self, shard: int, output: Output, batch_ms: int) -> Iterator[pd.DataFrame]:
        before_ms, timer_ms = output.timer_before_ms, output.timer_ms
        if timer_ms is not None and timer_ms != before_ms:
            # One that has expired is Spark's to delete, after its handler.
            if before_ms is not None and before_ms > batch_ms:
                self._handle.deleteTimer(before_ms)
            self._handle.registerTimer(timer_ms)
        for records in _frames(output.records):
            topics, keys, values = zip(*records, strict=True)
            numbers = [None if topic is Topic.REJECTED else shard for topic in topics]
            yield pd.DataFrame(
                {
                    "topic": [int(topic) for topic in topics],
                    "key": keys,
                    "value": values,
                    "partition": pd.array(numbers, dtype="Int32"),
                }
            )


def _frames(records: list[Record]) -> Iterator[list[Record]]:
    """The records in pieces of bounded size."""
    piece: list[Record] = []
    size_bytes = 0
    for record in records:
        piece.append(record)
        size_bytes += len(record.value or b"")
        if size_bytes > _FRAME_BYTES or len(piece) >= _FRAME_RECORDS:
            yield piece
            piece, size_bytes = [], 0
    if piece:
        yield piece


class SparkState:
    """The state of the shard that Spark is calling for: a map a kind."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._maps = {
            kind: handle.getMapState(kind.name.lower(), "name binary", "blob binary") for kind in Kind
        }

    def load(self, kind: Kind, name: bytes) -> bytes | None:
        """See `State`."""
        row = self._maps[kind].getValue((name,))
        return None if row is None or row[0] is None else bytes(row[0])

    def save(self, kind: Kind, name: bytes, blob: bytes | None) -> None:
        """See `State`."""
        if blob is None:
            self._maps[kind].removeKey((name,))
        else:
            self._maps[kind].updateValue((name,), (blob,))
