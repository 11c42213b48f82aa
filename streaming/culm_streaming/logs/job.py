"""The job `logs`: `entries` to `logs` and `rejected`. Each log leaves in order, without gaps or repeats.

Records are checked one by one and packed by shard before the shuffle; behind it, each shard's step judges
them as chains and keeps the state (`culm_streaming.logs`). One query with one sink writes both topics, so
that one set of offsets covers them.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from culm_streaming.gc_pause import no_garbage_collection
from culm_streaming.jobs import StreamingJob
from culm_streaming.kafka_io.topics import kafka_source
from culm_streaming.logs import book
from culm_streaming.logs.fetching import EntryFetcher
from culm_streaming.logs.packing import pack_records
from culm_streaming.logs.rows import unpack_rows
from culm_streaming.logs.settings import ChainSettings
from culm_streaming.logs.step import FetchFirst, step
from culm_streaming.progress import WAITING
from culm_topics.kafka.clients import KafkaSettings

Verify = Literal["full", "chain"]

_PACKED = "shard int, heads binary, sizes binary, values binary"
_OUTPUT = (
    "is_rejected boolean, key binary, value binary, waiting struct<shard int, count int, since_ms bigint>"
)
"""Records, and rows that have `waiting` alone, which are observed and not written."""
_ARROW = pa.schema(
    [("shard", pa.int32()), ("heads", pa.binary()), ("sizes", pa.binary()), ("values", pa.binary())]
)


@dataclass(frozen=True, slots=True)
class LogsSettings:
    """`verify`: `full` checks everything, `chain` all but the signatures, which connectors have checked."""

    verify: Verify = "full"
    max_offsets_per_trigger: int = 250_000
    chain: ChainSettings = field(default_factory=ChainSettings)


def logs_query(session: SparkSession, kafka: KafkaSettings, settings: LogsSettings) -> DataFrame:
    """The stream of records for Kafka's sink: `topic`, `key`, `value`."""
    chain = replace(settings.chain, entries_topic=kafka.topic("entries"))
    records = kafka_source(
        session, kafka, ("entries",), max_offsets_per_trigger=settings.max_offsets_per_trigger
    ).select("key", "value", "partition", "offset")
    packed = records.mapInArrow(_packer(chain, verify_signature=settings.verify == "full"), _PACKED)
    judged = packed.groupBy("shard").transformWithStateInPandas(
        ShardProcessor(chain, EntryFetcher(kafka.model_dump_json())),
        outputStructType=_OUTPUT,
        outputMode="append",
        timeMode="none",
    )
    topic = F.when(F.col("is_rejected"), F.lit(kafka.topic("rejected"))).otherwise(F.lit(kafka.topic("logs")))
    observed = judged.observe(WAITING, F.collect_list("waiting").alias(WAITING))
    return observed.where("value IS NOT NULL").select(topic.alias("topic"), "key", "value")


JOB = StreamingJob(
    logs_query,
    LogsSettings,
    prepare=book.prepare,
    waits=(
        "logs wait for earlier entries that did not come: a connector that holds them produces them again, "
        "and `culm logs repair` does so for one that is stopped"
    ),
)


def _packer(chain: ChainSettings, *, verify_signature: bool) -> Any:
    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = (batch.column(name).to_pylist() for name in ("key", "value", "partition", "offset"))
            records = list(zip(*columns, strict=True))
            with no_garbage_collection():
                packed = list(pack_records(records, chain, verify_signature=verify_signature))
            for rows in packed:
                row = {"shard": rows.shard, "heads": rows.heads, "sizes": rows.sizes, "values": rows.values}
                yield pa.RecordBatch.from_pylist([row], _ARROW)

    return pack


class ShardProcessor(StatefulProcessor):
    """Runs `step` for each shard of a micro-batch on Spark's state."""

    def __init__(self, settings: ChainSettings, fetch_first: FetchFirst) -> None:
        self._settings = settings
        self._fetch_first = fetch_first

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the state variables; see `culm_streaming.logs.state`."""
        self._store = SparkShardStore(handle)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        """All packed rows of one shard and micro-batch, which Spark hands over in several frames."""
        packed = [
            record
            for frame in rows
            for record in zip(frame["heads"], frame["sizes"], frame["values"], strict=True)
        ]
        now_ms = time.time_ns() // 1_000_000
        output = step(self._store, unpack_rows(packed), self._settings, self._fetch_first, now_ms=now_ms)
        records = output.logs + output.rejected
        if records:
            is_rejected = [False] * len(output.logs) + [True] * len(output.rejected)
            keys, values = zip(*records, strict=True)
            yield _frame(is_rejected, keys, values, [None] * len(records))
        if (waiting := output.waiting) is not None:
            row = {"shard": int(key[0]), "count": waiting.count, "since_ms": waiting.since_ms}
            yield _frame([None], [None], [None], [row])

    def close(self) -> None:
        """Nothing is held open."""


def _frame(
    is_rejected: Sequence[bool | None],
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    waiting: Sequence[dict[str, int] | None],
) -> pd.DataFrame:
    columns: dict[str, Any] = {"is_rejected": is_rejected, "key": keys, "value": values, "waiting": waiting}
    return pd.DataFrame({name: pd.Series(column, dtype=object) for name, column in columns.items()})


class SparkShardStore:
    """The state of the shard that Spark is calling for."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._totals = handle.getValueState("totals", "blob binary")
        self._blocks = handle.getMapState("blocks", "block int", "blob binary")
        self._chunks = handle.getMapState("history", "log_key binary, chunk long", "blob binary")
        self._early = handle.getMapState("early", "log_key binary", "blob binary")

    def load_totals(self) -> bytes | None:
        """See `ShardStore`."""
        return _blob(self._totals.get())

    def save_totals(self, blob: bytes) -> None:
        """See `ShardStore`."""
        self._totals.update((blob,))

    def load_block(self, block: int) -> bytes | None:
        """See `ShardStore`."""
        return _blob(self._blocks.getValue((block,)))

    def save_block(self, block: int, blob: bytes) -> None:
        """See `ShardStore`."""
        self._blocks.updateValue((block,), (blob,))

    def load_chunk(self, log_key: bytes, chunk: int) -> bytes | None:
        """See `ShardStore`."""
        return _blob(self._chunks.getValue((log_key, chunk)))

    def save_chunk(self, log_key: bytes, chunk: int, blob: bytes) -> None:
        """See `ShardStore`."""
        self._chunks.updateValue((log_key, chunk), (blob,))

    def load_early(self, log_key: bytes) -> bytes | None:
        """See `ShardStore`."""
        return _blob(self._early.getValue((log_key,)))

    def save_early(self, log_key: bytes, blob: bytes | None) -> None:
        """See `ShardStore`."""
        if blob is None:
            self._early.removeKey((log_key,))
        else:
            self._early.updateValue((log_key,), (blob,))


def _blob(row: tuple[Any, ...] | None) -> bytes | None:
    return None if row is None or row[0] is None else bytes(row[0])
