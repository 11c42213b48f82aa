"""The job `coverage`: `logs`, `fragments`, `payloads` and `holdings` to `coverage` and `rejected`.

Records are checked and reduced before the shuffle; behind it there are two stages with a state each, in one
query with one sink: `payloads` by the hashes of payloads, which passes everything else on, and `step` by log.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from culm_streaming.coverage.packing import (
    CHUNK_START_BYTES,
    COVERAGE,
    PAYLOADS,
    Packed,
    pack_fragments,
    pack_holdings,
    pack_logs,
    pack_payloads,
)
from culm_streaming.coverage.payloads import payloads_step
from culm_streaming.coverage.rows import (
    CoverageRows,
    pack_coverage_rows,
    unpack_coverage_rows,
    unpack_payload_rows,
)
from culm_streaming.coverage.settings import CoverageLayout
from culm_streaming.coverage.step import SourceTopics, place_of_log, step
from culm_streaming.gc_pause import no_garbage_collection
from culm_streaming.jobs import StreamingJob
from culm_streaming.kafka_io.topics import kafka_source
from culm_topics.kafka.clients import KafkaSettings

Verify = Literal["full", "chain"]

_PACKED = "shard int, stage int, rows binary"
_ARROW = pa.schema([("shard", pa.int32()), ("stage", pa.int32()), ("rows", pa.binary())])
_PASSED_ON = "shard int, rows binary"
_OUTPUT = "is_rejected boolean, key binary, value binary"

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class CoverageSettings:
    """`verify`: `full` checks the signatures of `fragments`, `chain` leaves them to the connectors.

    A record of `holdings` may hold 1,000 runs, one of `payloads` half a MiB, of which the start is read.
    """

    verify: Verify = "full"
    max_offsets_per_trigger: int = 250_000
    max_fragments_per_trigger: int = 50_000
    max_holdings_per_trigger: int = 50_000
    max_payload_chunks_per_trigger: int = 2_000
    layout: CoverageLayout = field(default_factory=CoverageLayout)


def coverage_query(session: SparkSession, kafka: KafkaSettings, settings: CoverageSettings) -> DataFrame:
    """The stream of records for Kafka's sink: `topic`, `key`, `value`."""
    layout = settings.layout

    def records(name: str, most: int) -> DataFrame:
        return kafka_source(session, kafka, (name,), max_offsets_per_trigger=most)

    def packed(name: str, most: int, pack: Callable[..., Iterator[Packed]]) -> DataFrame:
        columns = records(name, most).select("key", "value", "partition", "offset")
        return columns.mapInArrow(_packer(pack, layout, kafka.topic(name)), _PACKED)

    verify_signature = settings.verify == "full"
    chunks = records("payloads", settings.max_payload_chunks_per_trigger).select(
        "key",
        F.substring("value", 1, CHUNK_START_BYTES).alias("start"),
        F.length("value").alias("size"),
        "partition",
        "offset",
    )
    everything = (
        packed("logs", settings.max_offsets_per_trigger, pack_logs)
        .union(
            packed(
                "fragments",
                settings.max_fragments_per_trigger,
                partial(pack_fragments, verify_signature=verify_signature),
            )
        )
        .union(packed("holdings", settings.max_holdings_per_trigger, pack_holdings))
        .union(chunks.mapInArrow(_packer(pack_payloads, layout, kafka.topic("payloads")), _PACKED))
    )
    passed_on = everything.groupBy("shard").transformWithStateInPandas(
        PayloadsProcessor(layout), outputStructType=_PASSED_ON, outputMode="append", timeMode="none"
    )
    written = passed_on.groupBy("shard").transformWithStateInPandas(
        CoverageProcessor(layout, SourceTopics(kafka.topic("fragments"), kafka.topic("holdings"))),
        outputStructType=_OUTPUT,
        outputMode="append",
        timeMode="none",
    )
    topic = F.when(F.col("is_rejected"), F.lit(kafka.topic("rejected"))).otherwise(
        F.lit(kafka.topic("coverage"))
    )
    return written.select(topic.alias("topic"), "key", "value")


JOB = StreamingJob(coverage_query, CoverageSettings)


def _packer(pack: Callable[..., Iterator[Packed]], layout: CoverageLayout, topic: str) -> Any:
    def pack_batches(batches: Batches) -> Batches:
        # All that a task reads at once: the fewer rows of a log, the less they cost behind the shuffle.
        records = (record for batch in batches for record in _records(batch))
        with no_garbage_collection():
            rows = list(pack(records, layout, topic))
        shards, stages, blobs = zip(*rows, strict=True) if rows else ((), (), ())
        yield pa.RecordBatch.from_arrays(
            [pa.array(shards, pa.int32()), pa.array(stages, pa.int32()), pa.array(blobs, pa.binary())],
            schema=_ARROW,
        )

    return pack_batches


def _records(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in batch.columns), strict=True)


class PayloadsProcessor(StatefulProcessor):
    """Runs `payloads_step` for each shard of a micro-batch on Spark's state; rows of `step` go through."""

    def __init__(self, settings: CoverageLayout) -> None:
        self._settings = settings

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the state variables; see `culm_streaming.coverage.payloads`."""
        self._store = SparkPayloadsStore(handle)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        """All packed rows of one shard and micro-batch, which Spark hands over in several frames."""
        told: list[bytes] = []
        shards: list[int] = []
        blobs: list[bytes] = []
        for frame in rows:
            for stage, blob in zip(frame["stage"], frame["rows"], strict=True):
                if stage == PAYLOADS:
                    told.append(blob)
                else:
                    assert stage == COVERAGE
                    shards.append(int(key[0]))
                    blobs.append(blob)
        if told:
            output = payloads_step(self._store, unpack_payload_rows(told), self._settings)
            by_shard: dict[int, CoverageRows] = {}
            for held in output.held:
                by_shard.setdefault(
                    place_of_log(held.log, self._settings)[0], CoverageRows()
                ).payloads.append(held)
            if output.refused:
                by_shard.setdefault(int(key[0]), CoverageRows()).refused += output.refused
            for shard, some in sorted(by_shard.items()):
                shards.append(shard)
                blobs.append(pack_coverage_rows(some))
        if blobs:
            yield pd.DataFrame({"shard": shards, "rows": blobs})

    def close(self) -> None:
        """Nothing is held open."""


class CoverageProcessor(StatefulProcessor):
    """Runs `step` for each shard of a micro-batch on Spark's state."""

    def __init__(self, settings: CoverageLayout, topics: SourceTopics) -> None:
        self._settings = settings
        self._topics = topics

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the state variables; see `culm_streaming.coverage.state`."""
        self._store = SparkCoverageStore(handle)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        """All packed rows of one shard and micro-batch, which Spark hands over in several frames."""
        packed = [blob for frame in rows for blob in frame["rows"]]
        with no_garbage_collection():
            output = step(self._store, unpack_coverage_rows(packed), self._settings, self._topics)
        records = output.coverage + output.rejected
        if records:
            is_rejected = [False] * len(output.coverage) + [True] * len(output.rejected)
            keys, values = zip(*records, strict=True)
            yield pd.DataFrame({"is_rejected": is_rejected, "key": keys, "value": values})

    def close(self) -> None:
        """Nothing is held open."""


class SparkPayloadsStore:
    """The first stage's state of the shard that Spark is calling for."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._blocks = handle.getMapState("hashes", "block int", "blob binary")

    def load_hashes(self, block: int) -> bytes | None:
        """See `PayloadsStore`."""
        return _blob(self._blocks.getValue((block,)))

    def save_hashes(self, block: int, blob: bytes) -> None:
        """See `PayloadsStore`."""
        self._blocks.updateValue((block,), (blob,))


class SparkCoverageStore:
    """The second stage's state of the shard that Spark is calling for."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._shard = handle.getValueState("shard", "blob binary")
        self._blocks = handle.getMapState("blocks", "block int", "blob binary")
        self._fragments = handle.getMapState("fragments", "log binary", "blob binary")
        self._peers = handle.getMapState("peers", "peer_id binary", "rows long")

    def load_shard(self) -> bytes | None:
        """See `CoverageStore`."""
        return _blob(self._shard.get())

    def save_shard(self, blob: bytes) -> None:
        """See `CoverageStore`."""
        self._shard.update((blob,))

    def load_block(self, block: int) -> bytes | None:
        """See `CoverageStore`."""
        return _blob(self._blocks.getValue((block,)))

    def save_block(self, block: int, blob: bytes) -> None:
        """See `CoverageStore`."""
        self._blocks.updateValue((block,), (blob,))

    def load_fragments(self, log: bytes) -> bytes | None:
        """See `CoverageStore`."""
        return _blob(self._fragments.getValue((log,)))

    def save_fragments(self, log: bytes, blob: bytes | None) -> None:
        """See `CoverageStore`."""
        if blob is None:
            self._fragments.removeKey((log,))
        else:
            self._fragments.updateValue((log,), (blob,))

    def load_peer(self, peer_id: bytes) -> int:
        """See `CoverageStore`."""
        row = self._peers.getValue((peer_id,))
        return 0 if row is None or row[0] is None else int(row[0])

    def save_peer(self, peer_id: bytes, rows: int) -> None:
        """See `CoverageStore`."""
        self._peers.updateValue((peer_id,), (rows,))


def _blob(row: tuple[Any, ...] | None) -> bytes | None:
    return None if row is None or row[0] is None else bytes(row[0])
