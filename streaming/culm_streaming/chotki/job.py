"""The job `chotki`: `chotki.packets`, `chotki.fields` and `chotki.commits` to `chotki.state`.

One micro-batch is one epoch. Each batch is packed by shard before the shuffle; behind it each shard merges
(`step`), and one more counts for all of them (`epochs`). Shard n writes partition n of `chotki.state`. What
is written goes out stage by stage: a mark stands behind everything of its epoch.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import (
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from culm_streaming.chotki.epochs import count_epoch, restore_epoch
from culm_streaming.chotki.output_records import TOPIC_NAMES, OutputRecord, Stage, Topic
from culm_streaming.chotki.packing import pack_records
from culm_streaming.chotki.rows import EPOCHS_SHARD, TOPICS, InputTopic, Place, unpack_epoch, unpack_shard
from culm_streaming.chotki.settings import ChotkiStateSettings
from culm_streaming.chotki.step import restore_shard, step
from culm_streaming.errors import JobError
from culm_streaming.gc_pause import no_garbage_collection
from culm_streaming.jobs import StreamingJob
from culm_streaming.kafka_io.topics import kafka_source, kafka_table
from culm_topics.catalogue.topics import spec
from culm_topics.chotki.records import EpochRecord, epoch_key
from culm_topics.chotki.records.keys import EPOCH_KEY
from culm_topics.kafka import admin
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.readers.partitions import TopicPartitions

_PACKED = "shard int, source int, partition int, first long, rows binary"
_ARROW = pa.schema(
    [
        ("shard", pa.int32()),
        ("source", pa.int32()),
        ("partition", pa.int32()),
        ("first", pa.int64()),
        ("rows", pa.binary()),
    ]
)
_READ = ("key", "value", "partition", "offset", "written_ms")
_OUTPUT = "stage int, topic int, key binary, value binary, partition int"
_FRAME_RECORDS = 10_000
_FRAME_BYTES = 16 * 1024 * 1024

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class ChotkiJobSettings:
    """`state.shards` is taken from the topic `chotki.state`: what is given here does not count."""

    max_offsets_per_trigger: int = 250_000
    state: ChotkiStateSettings = field(default_factory=ChotkiStateSettings)


def chotki_query(session: SparkSession, kafka: KafkaSettings, settings: ChotkiJobSettings) -> DataFrame:
    """The stream of records for Kafka's staged sink: `stage`, `topic`, `key`, `value`, `partition`.

    Raises `JobError` when its topics do not exist, or have different numbers of partitions.
    """
    return _query(session, kafka, settings)


def restored_query(
    session: SparkSession, kafka: KafkaSettings, settings: ChotkiJobSettings
) -> DataFrame | None:
    """The query of a job whose checkpoint is gone: from `chotki.state`, behind its last complete epoch.

    None where there is no complete epoch. Raises as `chotki_query`, and `JobError` where the inputs behind
    that epoch are gone too: what they held may be missing in the state.
    """
    state = kafka_table(session, kafka, "chotki.state").select("partition", "offset", "key", "value")
    marks = state.where(F.substring("key", 1, 1) == F.lit(bytes([EPOCH_KEY]))).collect()
    newest: dict[int, EpochRecord] = {}
    for mark in sorted(marks, key=lambda one: int(one["offset"])):
        newest[mark["partition"]] = EpochRecord.decode(bytes(mark["value"]))
    if len(newest) < _shards(kafka):
        return None
    last = min(newest.values(), key=lambda one: one.epoch)
    start = {
        TOPICS[source]: dict(ends)
        for source, ends in zip(InputTopic, (last.packets, last.fields, last.commits), strict=True)
    }
    shards = state.select(F.col("partition").alias("shard"), "offset", "key", "value")
    epochs = session.createDataFrame(
        [(EPOCHS_SHARD, 0, epoch_key(0), last.encode())], "shard int, offset long, key binary, value binary"
    )
    return _query(session, kafka, settings, start=start, initial=shards.unionByName(epochs))


def _query(
    session: SparkSession,
    kafka: KafkaSettings,
    settings: ChotkiJobSettings,
    *,
    start: Mapping[str, Mapping[int, int]] | None = None,
    initial: DataFrame | None = None,
) -> DataFrame:
    shards = _shards(kafka)
    state = replace(settings.state, shards=shards)
    packed: DataFrame | None = None
    for source, name in TOPICS.items():
        records = kafka_source(
            session,
            kafka,
            (name,),
            max_offsets_per_trigger=settings.max_offsets_per_trigger,
            start=None if start is None else {name: _every_partition(kafka, name, start[name])},
        ).select("key", "value", "partition", "offset", F.unix_millis("timestamp").alias("written_ms"))
        rows = records.mapInArrow(_packer(source, shards, kafka.prefix), _PACKED)
        packed = rows if packed is None else packed.union(rows)
    assert packed is not None, "there are sources"
    written = packed.groupBy("shard").transformWithStateInPandas(
        ChotkiProcessor(state),
        outputStructType=_OUTPUT,
        outputMode="append",
        timeMode="processingTime",
        initialState=None if initial is None else initial.groupBy("shard"),
    )
    topic = F.lit(kafka.topic(TOPIC_NAMES[Topic.REJECTED]))
    for one, name in TOPIC_NAMES.items():
        topic = F.when(F.col("topic") == int(one), F.lit(kafka.topic(name))).otherwise(topic)
    return written.select("stage", topic.alias("topic"), "key", "value", "partition")


def _shards(kafka: KafkaSettings) -> int:
    found = admin.list_topics(kafka, [spec(name) for name in ("chotki.fields", "chotki.state")])
    partitions = {one.partitions for one in found}
    if len(partitions) != 1 or not (shards := partitions.pop()):
        raise JobError(
            "the job chotki failed: its topics do not exist, or `chotki.fields` and `chotki.state` "
            "do not have the same number of partitions"
        )
    return shards


def _every_partition(kafka: KafkaSettings, name: str, ends: Mapping[int, int]) -> dict[int, int]:
    """Where to begin in each partition of an input: at its start where the last epoch has nothing of it.

    Raises `JobError` where what comes next is gone, or was never there.
    """
    with TopicPartitions(kafka, name) as topic:
        start = {partition: ends.get(partition, 0) for partition in range(topic.count())}
        for partition, offset in start.items():
            low, high = topic.range_of(partition)
            if not low <= offset <= high:
                raise JobError(
                    f"the job chotki has no checkpoint, and its last epoch ends at {offset} in {topic.topic}/"
                    f"{partition}, which holds {low} to {high}: what lies between is missing in chotki.state",
                    hint="restore the checkpoint, or make the chotki.* topics anew: replicas bring all again",
                )
    return start


JOB = StreamingJob(chotki_query, ChotkiJobSettings, stages=len(Stage), restored=restored_query)


def _packer(source: InputTopic, shards: int, prefix: str) -> Any:
    def pack(batches: Batches) -> Batches:
        for batch in batches:
            columns = [batch[name].to_pylist() for name in _READ]
            packed = list(pack_records(source, zip(*columns, strict=True), shards, prefix))
            rows = [dict(zip(_ARROW.names, (one.shard, *one.place, one.blob), strict=True)) for one in packed]
            if rows:
                yield pa.RecordBatch.from_pylist(rows, _ARROW)

    return pack


class ChotkiProcessor(StatefulProcessor):
    """Runs `step` for each shard of a micro-batch, and `count_epoch` for all of them, on Spark's state."""

    def __init__(self, settings: ChotkiStateSettings) -> None:
        self._settings = settings

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the state variable; see `culm_streaming.chotki.state`."""
        self._state = SparkState(handle)

    def handleInputRows(self, key: Any, rows: Any, timerValues: TimerValues) -> Iterator[pd.DataFrame]:
        """All packed rows of one shard and micro-batch, which Spark hands over in several frames."""
        shard = int(key[0])
        packed = [one for frame in rows for one in _packed(frame)]
        with no_garbage_collection():
            if shard == EPOCHS_SHARD:
                batch_ms = timerValues.getCurrentProcessingTimeInMs()
                records = count_epoch(self._state, unpack_epoch(packed), batch_ms, self._settings)
            else:
                records = step(self._state, shard, unpack_shard(packed), self._settings)
            yield from _frames(records)

    def handleInitialState(self, key: Any, initialState: Any, timerValues: TimerValues) -> None:
        """What a job before this one has written of a shard."""
        found = initialState.sort_values("offset")
        records = list(zip(found["key"].tolist(), found["value"].tolist(), strict=True))
        if int(key[0]) == EPOCHS_SHARD:
            restore_epoch(self._state, EpochRecord.decode(records[-1][1]))
        else:
            restore_shard(self._state, records)

    def close(self) -> None:
        """Nothing is held open."""


def _packed(frame: pd.DataFrame) -> Iterator[tuple[Place, bytes]]:
    columns = (frame[name].tolist() for name in ("source", "partition", "first", "rows"))
    for source, partition, first, rows in zip(*columns, strict=True):
        yield (source, partition, first), rows


def _frames(records: Iterator[OutputRecord]) -> Iterator[pd.DataFrame]:
    piece: list[OutputRecord] = []
    size = 0
    for record in records:
        piece.append(record)
        size += len(record.value or b"")
        if len(piece) == _FRAME_RECORDS or size >= _FRAME_BYTES:
            yield _frame(piece)
            piece, size = [], 0
    if piece:
        yield _frame(piece)


def _frame(records: list[OutputRecord]) -> pd.DataFrame:
    stages, topics, keys, values, partitions = zip(*records, strict=True)
    return pd.DataFrame(
        {
            "stage": [int(stage) for stage in stages],
            "topic": [int(topic) for topic in topics],
            "key": keys,
            "value": values,
            "partition": pd.array(partitions, dtype="Int32"),
        }
    )


class SparkState:
    """The state of the shard that Spark is calling for, in one map."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._blobs = handle.getMapState("blobs", "name binary", "blob binary")

    def load(self, name: bytes) -> bytes | None:
        """See `ShardState`."""
        row = self._blobs.getValue((name,))
        return None if row is None or row[0] is None else bytes(row[0])

    def save(self, name: bytes, blob: bytes | None) -> None:
        """See `ShardState`."""
        if blob is None:
            self._blobs.removeKey((name,))
        else:
            self._blobs.updateValue((name,), (blob,))
