"""The job `blocks`: `logs` to `blocks`, and `receipts` to `block-vectors`: heights by block of public keys.

Each batch is reduced to one row per log and packed by shard before the shuffle; after it, each shard's step
updates its blocks (`culm_streaming.blocks`). Shard n writes partition n of its topics, so that a reader
receives the records of a block in the order in which they were written. One query with one sink writes
everything. Malformed records of `logs` go to `rejected`; the job `version-vectors` reports those of
`receipts`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from culm_streaming.blocks.packing import (
    Receipt,
    in_pieces,
    marks_of,
    pack_log_records,
    pack_receipts,
)
from culm_streaming.blocks.rows import HeightSource, unpack_rows
from culm_streaming.blocks.settings import HeightsSettings
from culm_streaming.blocks.state import VARIABLES
from culm_streaming.blocks.step import step
from culm_streaming.errors import JobError
from culm_streaming.jobs import StreamingJob
from culm_streaming.kafka_io.topics import kafka_records
from culm_streaming.stateful.shard_step import (
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
from culm_topics.errors import RecordError
from culm_topics.kafka import admin
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.logs.records import decode_receipt

_PACKED = "shard int, rows binary, rest binary"
_TOPICS = {HeightSource.LOGS: "blocks", HeightSource.RECEIPTS: "block-vectors"}


@dataclass(frozen=True, slots=True)
class BlocksSettings:
    """Settings of the job. `heights.shards` is ignored: it is the number of partitions of the topic `blocks`.

    A receipt may hold 50,000 rows, and a micro-batch of them is held in memory by shard.
    """

    max_offsets_per_trigger: int = 250_000
    max_receipts_per_trigger: int = 1_000
    heights: HeightsSettings = field(default_factory=HeightsSettings)


def blocks_query(session: SparkSession, kafka: KafkaSettings, settings: BlocksSettings) -> DataFrame:
    """Return the stream of records for Kafka's sink: `topic`, `key`, `value`, `partition`.

    Raises `JobError` if its topics do not exist.
    """
    partitions = {
        source: state.partitions
        for source, state in zip(
            _TOPICS, admin.list_topics(kafka, [spec(name) for name in _TOPICS.values()]), strict=True
        )
    }
    if not all(partitions.values()):
        raise JobError("the job blocks failed: its topics `blocks` and `block-vectors` do not exist")
    heights = replace(settings.heights, shards=partitions[HeightSource.LOGS])
    logs = kafka_records(session, kafka, "logs", settings.max_offsets_per_trigger)
    receipts = kafka_records(session, kafka, "receipts", settings.max_receipts_per_trigger)
    pack_logs = partial(_pack_logs, settings=heights, topic=kafka.topic("logs"))
    packed = map_batches(logs, pack_logs, _PACKED).union(
        map_batches(receipts, partial(_pack_receipts, settings=heights), _PACKED)
    )
    take = partial(_take, settings=heights, vector_partitions=partitions[HeightSource.RECEIPTS])
    return with_full_topics(step_by_shard(packed, ShardStep(VARIABLES, take)), kafka)


JOB = StreamingJob(blocks_query, BlocksSettings)


def _pack_logs(batches: Batches, *, settings: HeightsSettings, topic: str) -> Iterator[Piece]:
    for batch in batches:
        columns = (batch["key"], batch["value"], batch["partition"], batch["offset"])
        if batch.num_rows:
            yield columns_of(pack_log_records(columns, settings, topic))


def _pack_receipts(batches: Batches, *, settings: HeightsSettings) -> Iterator[Piece]:
    for batch in batches:
        if batch.num_rows:
            marks = marks_of(HeightSource.RECEIPTS, batch["partition"], batch["offset"])
            for receipts in in_pieces(_receipts(batch)):
                yield columns_of(pack_receipts(receipts, marks, settings))


def _receipts(batch: pa.RecordBatch) -> Iterator[Receipt]:
    for key, value, partition, offset in rows_of(batch):
        try:
            peer_id, receipt = decode_receipt(key, value)
        except RecordError:
            continue  # The job `version-vectors` reports it.
        yield peer_id, receipt.log_heights, partition, offset


def _take(
    shard: Shard, packed: list[Any], *, settings: HeightsSettings, vector_partitions: int
) -> Iterator[Piece]:
    output = step(shard.state, shard.number, unpack_rows(packed), settings)
    partitions = {HeightSource.LOGS: shard.number, HeightSource.RECEIPTS: shard.number % vector_partitions}
    yield columns_of(
        (_TOPICS[source], key, value, partitions[source])
        for source, records in output.records.items()
        for key, value in records
    )
    yield columns_of(("rejected", key, value, None) for key, value in output.refused)
