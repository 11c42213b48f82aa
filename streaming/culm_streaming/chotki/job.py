"""The job `chotki`: `chotki.packets`, `chotki.fields` and `chotki.commits` to `chotki.state`.

One micro-batch is one epoch. Each batch is packed by shard before the shuffle; after it each shard merges
(`step`), and one more counts for all of them (`epochs`). Shard n writes partition n of `chotki.state`. The
output is written stage by stage: a mark comes after all other records of its epoch.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from operator import itemgetter
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from culm_streaming.chotki.epochs import count_epoch, restore_epoch
from culm_streaming.chotki.output_records import OutputStage, StagedRecord
from culm_streaming.chotki.packing import pack_records
from culm_streaming.chotki.rows import EPOCHS_SHARD, TOPICS, InputTopic, unpack_epoch, unpack_shard
from culm_streaming.chotki.settings import ChotkiStateSettings
from culm_streaming.chotki.state import BLOBS
from culm_streaming.chotki.step import restore_shard, step
from culm_streaming.errors import JobError
from culm_streaming.jobs import StreamingJob
from culm_streaming.kafka_io.topics import kafka_source, kafka_table
from culm_streaming.stateful.shard_step import (
    RECORDS,
    Batches,
    Piece,
    ShardStep,
    columns_of,
    map_batches,
    rows_of,
    step_by_shard,
    with_full_topics,
)
from culm_streaming.stateful.step_processor import Shard
from culm_topics.catalogue.topics import spec
from culm_topics.chotki.records import EpochRecord, epoch_key
from culm_topics.chotki.records.keys import EPOCH_KEY
from culm_topics.kafka import admin
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.readers.partitions import TopicPartitions

_PACKED = "shard int, source int, partition int, first long, rows binary"
_FRAME_RECORDS = 10_000
_FRAME_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ChotkiJobSettings:
    """`state.shards` is taken from the topic `chotki.state`: a value given here is ignored."""

    max_offsets_per_trigger: int = 250_000
    state: ChotkiStateSettings = field(default_factory=ChotkiStateSettings)


def chotki_query(session: SparkSession, kafka: KafkaSettings, settings: ChotkiJobSettings) -> DataFrame:
    """Return the stream of records for Kafka's staged sink: `stage`, `topic`, `key`, `value`, `partition`.

    Raises `JobError` if its topics do not exist, or have different numbers of partitions.
    """
    return _query(session, kafka, settings)


def restored_query(
    session: SparkSession, kafka: KafkaSettings, settings: ChotkiJobSettings
) -> DataFrame | None:
    """Return the query of a job without a checkpoint: from `chotki.state`, after its last complete epoch.

    None if there is no complete epoch. Raises the errors of `chotki_query`, and `JobError` if the inputs
    after that epoch are gone too: their contents may be missing in the state.
    """
    state = kafka_table(session, kafka, "chotki.state").select("partition", "offset", "key", "value")
    marks = state.where(F.substring("key", 1, 1) == F.lit(bytes([EPOCH_KEY]))).collect()
    newest: dict[int, EpochRecord] = {}
    for mark in sorted(marks, key=lambda row: int(row["offset"])):
        newest[mark["partition"]] = EpochRecord.decode(bytes(mark["value"]))
    if len(newest) < _shards(kafka):
        return None
    last = min(newest.values(), key=lambda record: record.epoch)
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
        pack = partial(_pack, source=source, shards=shards, prefix=kafka.prefix)
        rows = map_batches(records, pack, _PACKED)
        packed = rows if packed is None else packed.union(rows)
    assert packed is not None, "there are sources"
    step = ShardStep((BLOBS,), partial(_take, settings=state), restore=_restore)
    output = f"stage int, {RECORDS}"
    written = step_by_shard(packed, step, output, time_mode="processingTime", initial=initial)
    return with_full_topics(written, kafka)


def _shards(kafka: KafkaSettings) -> int:
    states = admin.list_topics(kafka, [spec(name) for name in ("chotki.fields", "chotki.state")])
    partitions = {state.partitions for state in states}
    if len(partitions) != 1 or not (shards := partitions.pop()):
        raise JobError(
            "the job chotki failed: its topics do not exist, or `chotki.fields` and `chotki.state` "
            "do not have the same number of partitions"
        )
    return shards


def _every_partition(kafka: KafkaSettings, name: str, ends: Mapping[int, int]) -> dict[int, int]:
    """Return the start in each partition of an input: its beginning if the last epoch has nothing of it.

    Raises `JobError` if the next record is gone, or was never there.
    """
    with TopicPartitions(kafka, name) as topic:
        start = {partition: ends.get(partition, 0) for partition in range(topic.count())}
        for partition, offset in start.items():
            low, high = topic.range_of(partition)
            if not low <= offset <= high:
                raise JobError(
                    f"the job chotki has no checkpoint, and its last epoch ends at {offset} in {topic.topic}/"
                    f"{partition}, which holds {low} to {high}: what lies between is missing in chotki.state",
                    hint="restore the checkpoint, or create the chotki.* topics again: replicas "
                    "send everything again",
                )
    return start


JOB = StreamingJob(chotki_query, ChotkiJobSettings, stages=len(OutputStage), restored=restored_query)


def _pack(batches: Batches, *, source: InputTopic, shards: int, prefix: str) -> Iterator[Piece]:
    for batch in batches:
        packed = pack_records(source, rows_of(batch), shards, prefix)
        yield columns_of((shard_rows.shard, *shard_rows.place, shard_rows.blob) for shard_rows in packed)


def _take(shard: Shard, packed: list[Any], *, settings: ChotkiStateSettings) -> Iterator[Piece]:
    rows = [((source, partition, first), blob) for source, partition, first, blob in packed]
    if shard.number == EPOCHS_SHARD:
        return _in_pieces(count_epoch(shard.state, unpack_epoch(rows), shard.batch_ms, settings))
    return _in_pieces(step(shard.state, shard.number, unpack_shard(rows), settings))


def _restore(shard: Shard, written: list[Any]) -> None:
    """Restore the state of a shard from the records that an earlier job has written."""
    records = [(key, value) for _, key, value in sorted(written, key=itemgetter(0))]
    if shard.number == EPOCHS_SHARD:
        restore_epoch(shard.state, EpochRecord.decode(records[-1][1]))
    else:
        restore_shard(shard.state, records)


def _in_pieces(records: Iterator[StagedRecord]) -> Iterator[Piece]:
    piece: list[StagedRecord] = []
    size = 0
    for record in records:
        piece.append(record)
        size += len(record.value or b"")
        if len(piece) == _FRAME_RECORDS or size >= _FRAME_BYTES:
            yield columns_of(piece)
            piece, size = [], 0
    yield columns_of(piece)
