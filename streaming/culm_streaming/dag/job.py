"""The job `dag`: `dag.nodes`, `dag.publishes`, `dag.shards`, `dag.blocked` to what follows from them.

Records are checked before the shuffle; behind it there are two stages with a state each, in one query with
one sink: `shards` by the CIDs of shards, which passes everything else on, and `step` in one place.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from culm_models.dag.verdict import DEFAULT_VERDICT, VerdictSettings
from culm_streaming.dag.packing import (
    PLACE,
    REJECTED,
    REPLICAS,
    SHARDS,
    Packed,
    Packing,
    pack_blocked,
    pack_nodes,
    pack_publishes,
    pack_shards,
)
from culm_streaming.dag.replicas import HEADS_TOPIC, ORDER_TOPIC, PUBLISHED_TOPIC
from culm_streaming.dag.rows import pack_replica_rows, unpack_chunks, unpack_replica_rows
from culm_streaming.dag.settings import DagLayout
from culm_streaming.dag.shards import INDEX_TOPIC, shards_step
from culm_streaming.dag.step import Remembered, step
from culm_streaming.gc_pause import no_garbage_collection
from culm_streaming.jobs import StreamingJob
from culm_streaming.kafka_io.topics import kafka_source
from culm_topics.dag.verdict import agree_verdict
from culm_topics.kafka.clients import KafkaSettings

_PACKED = "place int, stage int, rows binary"
_ARROW = pa.schema([("place", pa.int32()), ("stage", pa.int32()), ("rows", pa.binary())])
_PASSED_ON = "place int, rows binary"
_WRITTEN = (HEADS_TOPIC, ORDER_TOPIC, PUBLISHED_TOPIC, INDEX_TOPIC, REJECTED)
_OUTPUT = "topic string, key binary, value binary, partition int"

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class DagJobSettings:
    """`verdict` is the deployment's (R28): the job refuses to start where the one in force is another.

    A record of `dag.shards` may hold 896 KiB.
    """

    verdict: VerdictSettings = DEFAULT_VERDICT
    max_offsets_per_trigger: int = 50_000
    max_chunks_per_trigger: int = 128
    layout: DagLayout = field(default_factory=DagLayout)


def dag_query(session: SparkSession, kafka: KafkaSettings, settings: DagJobSettings) -> DataFrame:
    """The stream of records for Kafka's sink: `topic`, `key`, `value`, `partition`.

    Raises `VerdictDiffers`, `VerdictUnsupported`, `TopicMissing`, `KafkaFailure`.
    """
    agree_verdict(kafka, settings.verdict)
    layout = settings.layout

    def packed(name: str, most: int, pack: Callable[..., Iterator[Packed]]) -> DataFrame:
        records = kafka_source(session, kafka, (name,), max_offsets_per_trigger=most)
        columns = records.select("key", "value", "partition", "offset")
        packing = Packing(layout, settings.verdict, kafka.topic(name))
        return columns.mapInArrow(_packer(pack, packing), _PACKED)

    most = settings.max_offsets_per_trigger
    everything = (
        packed("dag.nodes", most, pack_nodes)
        .union(packed("dag.publishes", most, pack_publishes))
        .union(packed("dag.shards", settings.max_chunks_per_trigger, pack_shards))
        .union(packed("dag.blocked", most, pack_blocked))
    )
    passed_on = everything.groupBy("place").transformWithStateInPandas(
        ShardsProcessor(settings.verdict), outputStructType=_PASSED_ON, outputMode="append", timeMode="none"
    )
    return passed_on.groupBy("place").transformWithStateInPandas(
        ReplicasProcessor(settings.verdict, layout, {name: kafka.topic(name) for name in _WRITTEN}),
        outputStructType=_OUTPUT,
        outputMode="append",
        timeMode="none",
    )


JOB = StreamingJob(dag_query, DagJobSettings)


def _packer(pack: Callable[..., Iterator[Packed]], packing: Packing) -> Any:
    def pack_batches(batches: Batches) -> Batches:
        records = (
            record
            for batch in batches
            for record in zip(*(column.to_pylist() for column in batch.columns), strict=True)
        )
        # A worker may also be the one that remembers all replicas: the collector would walk through those.
        with no_garbage_collection():
            for packed in pack(records, packing):
                columns = zip(packed, _ARROW, strict=True)
                yield pa.RecordBatch.from_arrays(
                    [pa.array([one], of.type) for one, of in columns], schema=_ARROW
                )

    return pack_batches


class ShardsProcessor(StatefulProcessor):
    """Runs `shards_step` for each place of a micro-batch on Spark's state; all other rows go through."""

    def __init__(self, verdict: VerdictSettings) -> None:
        self._verdict = verdict

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the state variables; see `culm_streaming.dag.shards`."""
        self._store = SparkShardsStore(handle)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        """All packed rows of one place and micro-batch, which Spark hands over in several frames."""
        chunks: list[bytes] = []
        passed_on: list[bytes] = []
        for frame in rows:
            for stage, blob in zip(frame["stage"], frame["rows"], strict=True):
                assert stage in (SHARDS, REPLICAS)
                (chunks if stage == SHARDS else passed_on).append(blob)
        if chunks:
            told = shards_step(self._store, unpack_chunks(chunks), self._verdict)
            if told:
                passed_on.append(pack_replica_rows(told))
        for blob in passed_on:
            yield pd.DataFrame({"place": [PLACE], "rows": [blob]})

    def close(self) -> None:
        """Nothing is held open."""


_REMEMBERED = Remembered()
"""Of this worker: what it knows of the one place, as of the last micro-batch that it was called for."""


class ReplicasProcessor(StatefulProcessor):
    """Runs `step` for each micro-batch on Spark's state."""

    def __init__(self, verdict: VerdictSettings, layout: DagLayout, topics: Mapping[str, str]) -> None:
        self._verdict = verdict
        self._layout = layout
        self._topics = topics

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the state variables; see `culm_streaming.dag.state`."""
        self._store = SparkReplicasStore(handle)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        """All packed rows of a micro-batch, which Spark hands over in several frames."""
        assert int(key[0]) == PLACE
        packed = [blob for frame in rows for blob in frame["rows"]]
        with no_garbage_collection():
            records = step(self._store, unpack_replica_rows(packed), self._verdict, self._layout, _REMEMBERED)
        if records:
            topics, keys, values, partitions = zip(*records, strict=True)
            yield pd.DataFrame(
                {
                    "topic": [self._topics[name] for name in topics],
                    "key": keys,
                    "value": values,
                    "partition": pd.array(partitions, dtype="Int32"),
                }
            )

    def close(self) -> None:
        """Nothing is held open."""


class SparkShardsStore:
    """The first stage's state of the place that Spark is calling for."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._shards = handle.getMapState("shards", "shard binary", "blob binary")
        self._chunks = handle.getMapState("chunks", "shard binary, start long", "blob binary")

    def load_shard(self, shard: bytes) -> bytes | None:
        """See `ShardsStore`."""
        return _blob(self._shards.getValue((shard,)))

    def save_shard(self, shard: bytes, blob: bytes | None) -> None:
        """See `ShardsStore`."""
        _save(self._shards, (shard,), blob)

    def load_chunk(self, shard: bytes, offset: int) -> bytes | None:
        """See `ShardsStore`."""
        return _blob(self._chunks.getValue((shard, offset)))

    def save_chunk(self, shard: bytes, offset: int, data: bytes | None) -> None:
        """See `ShardsStore`."""
        _save(self._chunks, (shard, offset), data)


class SparkReplicasStore:
    """The second stage's state."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._head = handle.getValueState("head", "blob binary")
        self._pieces = handle.getMapState("pieces", "number int", "blob binary")

    def load_head(self) -> bytes | None:
        """See `ReplicasStore`."""
        return _blob(self._head.get())

    def save_head(self, blob: bytes) -> None:
        """See `ReplicasStore`."""
        self._head.update((blob,))

    def load_piece(self, number: int) -> bytes | None:
        """See `ReplicasStore`."""
        return _blob(self._pieces.getValue((number,)))

    def save_piece(self, number: int, blob: bytes) -> None:
        """See `ReplicasStore`."""
        self._pieces.updateValue((number,), (blob,))


def _blob(row: tuple[Any, ...] | None) -> bytes | None:
    return None if row is None or row[0] is None else bytes(row[0])


def _save(state: Any, key: tuple[Any, ...], blob: bytes | None) -> None:
    if blob is None:
        if state.containsKey(key):
            state.removeKey(key)
    else:
        state.updateValue(key, (blob,))
