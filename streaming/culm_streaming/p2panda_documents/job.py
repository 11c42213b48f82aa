"""The job `documents`: `logs` to `documents` and `rejected`.

Records are decoded and packed by log before the shuffle. After it, there are two stages with a state each, in
one query with one sink: `log_documents` finds the document of each log, and `step` reduces the operations of
each document.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from culm_streaming.jobs import StreamingJob
from culm_streaming.kafka_io.fetching import RecordFetcher
from culm_streaming.kafka_io.topics import kafka_records
from culm_streaming.p2panda_documents.document_state import BLOCKS, OWN_ROWS, SHARD
from culm_streaming.p2panda_documents.fetching import FieldsFetcher
from culm_streaming.p2panda_documents.history import PAGES
from culm_streaming.p2panda_documents.log_documents import VARIABLES as LOG_VARIABLES
from culm_streaming.p2panda_documents.log_documents import log_documents_step
from culm_streaming.p2panda_documents.packing import pack_logs
from culm_streaming.p2panda_documents.rows import ArrivedRows, ResolvedRows
from culm_streaming.p2panda_documents.settings import DocumentsLayout
from culm_streaming.p2panda_documents.step import ReadFields, shard_of, step
from culm_streaming.p2panda_documents.waiting_operations import WAITING as WAITING_OPERATIONS
from culm_streaming.progress import WAITING
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
from culm_topics.kafka.clients import KafkaSettings

_ARRIVED: Final = "place int, rows binary"
_RESOLVED: Final = "shard int, rows binary"
_OUTPUT: Final = "topic string, key binary, value binary, waiting struct<shard:int,logs:int,since_ms:bigint>"
"""Records, and rows with only `waiting`, which are observed and not written."""


@dataclass(frozen=True, slots=True)
class DocumentsSettings:
    """Settings of the job."""

    max_offsets_per_trigger: int = 250_000
    layout: DocumentsLayout = field(default_factory=DocumentsLayout)


def documents_query(session: SparkSession, kafka: KafkaSettings, settings: DocumentsSettings) -> DataFrame:
    """Return the stream of records for Kafka's sink: `topic`, `key`, `value`."""
    layout, topic = settings.layout, kafka.topic("logs")
    records = kafka_records(session, kafka, "logs", settings.max_offsets_per_trigger)
    arrived = map_batches(records, partial(_pack, layout=layout, topic=topic), _ARRIVED)
    resolve = ShardStep(LOG_VARIABLES, partial(_resolve, layout=layout))
    fetch = FieldsFetcher(RecordFetcher.of(kafka, "logs"), layout.max_value_bytes)
    reduce = ShardStep(
        (SHARD, BLOCKS, OWN_ROWS, PAGES, WAITING_OPERATIONS),
        partial(_reduce, layout=layout, read_fields=fetch, topic=topic),
    )
    reduced = step_by_shard(step_by_shard(arrived, resolve, _RESOLVED), reduce, _OUTPUT)
    observed = reduced.observe(WAITING, F.collect_list("waiting").alias(WAITING))
    return with_full_topics(observed.where("value IS NOT NULL").drop("waiting"), kafka)


JOB = StreamingJob(
    documents_query,
    DocumentsSettings,
    waits=(
        "logs wait for the operation that their first entry follows: it did not come, or waits itself in a "
        "log whose document is not known"
    ),
)


def _pack(batches: Batches, *, layout: DocumentsLayout, topic: str) -> Iterator[Piece]:
    for batch in batches:
        yield columns_of([(0, pack_logs(rows_of(batch), layout.max_value_bytes, topic).pack())])


def _resolve(shard: Shard, packed: list[Any], *, layout: DocumentsLayout) -> Iterator[Piece]:
    """Find the document of each log; sort the operations by the shard of their document."""
    now_ms = time.time_ns() // 1_000_000
    output = log_documents_step(
        shard.state, ArrivedRows.unpack(blob for (blob,) in packed), layout, now_ms=now_ms
    )
    by_shard: dict[int, ResolvedRows] = {}
    for rows in output.resolved:
        by_shard.setdefault(shard_of(rows.document_id, layout), ResolvedRows()).documents.append(rows)
    if output.refused:
        by_shard.setdefault(shard.number, ResolvedRows()).refused += output.refused
    if output.waiting is not None:
        by_shard.setdefault(shard.number, ResolvedRows()).waiting.append(output.waiting)
    yield columns_of((number, rows.pack()) for number, rows in sorted(by_shard.items()))


def _reduce(
    shard: Shard, packed: list[Any], *, layout: DocumentsLayout, read_fields: ReadFields, topic: str
) -> Iterator[Piece]:
    rows = ResolvedRows.unpack(blob for (blob,) in packed)
    output = step(shard.state, rows, layout, read_fields, topic)
    for name, records in (("documents", output.documents), ("rejected", output.rejected)):
        if records:
            yield [name] * len(records), *columns_of(records), [None] * len(records)
    for waiting in rows.waiting:
        yield [None], [None], [None], [{"shard": shard.number, **waiting._asdict()}]
