"""The job `blocks`: `logs` to `blocks`, and `receipts` to `block-vectors`: heights by block of public keys.

Each batch is reduced to one row a log and packed by shard before the shuffle; behind it each shard's step
lets its blocks grow (`culm_streaming.blocks`). Shard n writes partition n of its topics, so that a reader
sees the records of a block in the order in which they were written. One query with one sink writes
everything. Records of `logs` that are none go to `rejected`; those of `receipts` are told by the job
`version-vectors`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from culm_streaming.blocks.packing import (
    PackedRows,
    Receipt,
    in_pieces,
    marks_of,
    pack_log_records,
    pack_receipts,
)
from culm_streaming.blocks.rows import Source, unpack_rows
from culm_streaming.blocks.settings import HeightsSettings
from culm_streaming.blocks.state import Place
from culm_streaming.blocks.step import step
from culm_streaming.errors import JobError
from culm_streaming.jobs import StreamingJob
from culm_streaming.kafka_io.topics import kafka_source
from culm_topics.catalogue.topics import spec
from culm_topics.errors import RecordError
from culm_topics.kafka import admin
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.logs.records import decode_receipt

_PACKED = "shard int, rows binary, rest binary"
_ARROW = pa.schema([("shard", pa.int32()), ("rows", pa.binary()), ("rest", pa.binary())])
_OUTPUT = "topic int, key binary, value binary, partition int"
_REJECTED = len(Source)
_TOPICS = {Source.LOGS: "blocks", Source.RECEIPTS: "block-vectors"}

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class BlocksSettings:
    """`heights.shards` is taken from the topic `blocks`: what is given here does not count.

    A receipt may hold 50,000 rows, and a micro-batch of them is held in memory by shard.
    """

    max_offsets_per_trigger: int = 250_000
    max_receipts_per_trigger: int = 1_000
    heights: HeightsSettings = field(default_factory=HeightsSettings)


def blocks_query(session: SparkSession, kafka: KafkaSettings, settings: BlocksSettings) -> DataFrame:
    """The stream of records for Kafka's sink: `topic`, `key`, `value`, `partition`.

    Raises `JobError` when its topics do not exist.
    """
    partitions = {
        source: state.partitions
        for source, state in zip(
            _TOPICS, admin.list_topics(kafka, [spec(name) for name in _TOPICS.values()]), strict=True
        )
    }
    if not all(partitions.values()):
        raise JobError("the job blocks failed: its topics `blocks` and `block-vectors` do not exist")
    heights = replace(settings.heights, shards=partitions[Source.LOGS])
    logs = kafka_source(
        session, kafka, ("logs",), max_offsets_per_trigger=settings.max_offsets_per_trigger
    ).select("key", "value", "partition", "offset")
    receipts = kafka_source(
        session, kafka, ("receipts",), max_offsets_per_trigger=settings.max_receipts_per_trigger
    ).select("key", "value", "partition", "offset")
    packed = logs.mapInArrow(_log_packer(heights, kafka.topic("logs")), _PACKED).union(
        receipts.mapInArrow(_receipt_packer(heights), _PACKED)
    )
    written = packed.groupBy("shard").transformWithStateInPandas(
        BlocksProcessor(heights, partitions[Source.RECEIPTS]),
        outputStructType=_OUTPUT,
        outputMode="append",
        timeMode="none",
    )
    names = [kafka.topic(name) for name in _TOPICS.values()]
    topic = F.lit(kafka.topic("rejected"))
    for source, name in enumerate(names):
        topic = F.when(F.col("topic") == source, F.lit(name)).otherwise(topic)
    return written.select(topic.alias("topic"), "key", "value", "partition")


JOB = StreamingJob(blocks_query, BlocksSettings)


def _log_packer(settings: HeightsSettings, topic: str) -> Any:
    def pack(batches: Batches) -> Batches:
        for batch in batches:
            columns = (batch["key"], batch["value"], batch["partition"], batch["offset"])
            if batch.num_rows:
                yield _arrow(pack_log_records(columns, settings, topic))

    return pack


def _receipt_packer(settings: HeightsSettings) -> Any:
    def pack(batches: Batches) -> Batches:
        for batch in batches:
            if batch.num_rows:
                marks = marks_of(Source.RECEIPTS, batch["partition"], batch["offset"])
                for receipts in in_pieces(_receipts(batch)):
                    yield _arrow(pack_receipts(receipts, marks, settings))

    return pack


def _receipts(batch: pa.RecordBatch) -> Iterator[Receipt]:
    columns = (batch[name].to_pylist() for name in ("key", "value", "partition", "offset"))
    for key, value, partition, offset in zip(*columns, strict=True):
        try:
            peer_id, receipt = decode_receipt(key, value)
        except RecordError:
            continue  # told by the job `version-vectors`
        yield peer_id, receipt.log_heights, partition, offset


def _arrow(packed: Iterator[PackedRows]) -> pa.RecordBatch:
    rows = [{"shard": one.shard, "rows": one.rows, "rest": one.rest} for one in packed]
    return pa.RecordBatch.from_pylist(rows, _ARROW)


class BlocksProcessor(StatefulProcessor):
    """Runs `step` for each shard of a micro-batch on Spark's state."""

    def __init__(self, settings: HeightsSettings, vector_partitions: int) -> None:
        self._settings = settings
        self._vector_partitions = vector_partitions

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the state variables; see `culm_streaming.blocks.state`."""
        self._store = SparkHeightsStore(handle)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        """All packed rows of one shard and micro-batch, which Spark hands over in several frames."""
        packed = [record for frame in rows for record in zip(frame["rows"], frame["rest"], strict=True)]
        shard = int(key[0])
        output = step(self._store, shard, unpack_rows(packed), self._settings)
        partitions = {Source.LOGS: shard, Source.RECEIPTS: shard % self._vector_partitions}
        written: list[tuple[int, bytes, bytes | None, int | None]] = [
            (int(source), key, value, partitions[source])
            for source, records in output.records.items()
            for key, value in records
        ]
        written += [(_REJECTED, key, value, None) for key, value in output.refused]
        if written:
            topics, keys, values, numbers = zip(*written, strict=True)
            yield pd.DataFrame(
                {
                    "topic": topics,
                    "key": keys,
                    "value": values,
                    "partition": pd.array(numbers, dtype="Int32"),
                }
            )

    def close(self) -> None:
        """Nothing is held open."""


class SparkHeightsStore:
    """The state of the shard that Spark is calling for."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        place = "source int, name binary, block int"
        self._shard = handle.getValueState("shard", "blob binary")
        self._summaries = handle.getMapState("summaries", place, "blob binary")
        self._chunks = handle.getMapState("chunks", f"{place}, chunk int", "blob binary")

    def load_shard(self) -> bytes | None:
        """See `HeightsStore`."""
        return _blob(self._shard.get())

    def save_shard(self, blob: bytes) -> None:
        """See `HeightsStore`."""
        self._shard.update((blob,))

    def load_summary(self, place: Place) -> bytes | None:
        """See `HeightsStore`."""
        return _blob(self._summaries.getValue(place))

    def save_summary(self, place: Place, blob: bytes) -> None:
        """See `HeightsStore`."""
        self._summaries.updateValue(place, (blob,))

    def load_chunk(self, place: Place, chunk: int) -> bytes | None:
        """See `HeightsStore`."""
        return _blob(self._chunks.getValue((*place, chunk)))

    def save_chunk(self, place: Place, chunk: int, blob: bytes | None) -> None:
        """See `HeightsStore`."""
        if blob is None:
            self._chunks.removeKey((*place, chunk))
        else:
            self._chunks.updateValue((*place, chunk), (blob,))


def _blob(row: tuple[Any, ...] | None) -> bytes | None:
    return None if row is None or row[0] is None else bytes(row[0])
