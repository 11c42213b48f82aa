"""The job `logs`: `entries` to `logs` and `rejected`. Each log is written in order, without gaps or repeats.

Records are checked one by one and packed by shard before the shuffle; after it, each shard's step checks them
as chains and keeps the state (`culm_streaming.logs`). One query with one sink writes both topics, so that one
set of offsets covers them.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from culm_streaming.jobs import StreamingJob
from culm_streaming.kafka_io.fetching import RecordFetcher
from culm_streaming.kafka_io.topics import kafka_records
from culm_streaming.logs import log_table
from culm_streaming.logs.fetching import EntryFetcher
from culm_streaming.logs.log_table import VARIABLES
from culm_streaming.logs.packing import pack_records
from culm_streaming.logs.rows import unpack_rows
from culm_streaming.logs.settings import ChainSettings
from culm_streaming.logs.step import FetchFirst, step
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

Verify = Literal["full", "chain"]

_PACKED = "shard int, heads binary, sizes binary, values binary"
_OUTPUT = "topic string, key binary, value binary, waiting struct<shard:int,logs:int,since_ms:bigint>"
"""Records, and rows with only `waiting`, which are observed and not written."""


@dataclass(frozen=True, slots=True)
class LogsSettings:
    """`verify`: `full` checks everything, `chain` all but the signatures, which connectors have checked."""

    verify: Verify = "full"
    max_offsets_per_trigger: int = 250_000
    chain: ChainSettings = field(default_factory=ChainSettings)


def logs_query(session: SparkSession, kafka: KafkaSettings, settings: LogsSettings) -> DataFrame:
    """Return the stream of records for Kafka's sink: `topic`, `key`, `value`."""
    chain = replace(settings.chain, entries_topic=kafka.topic("entries"))
    records = kafka_records(session, kafka, "entries", settings.max_offsets_per_trigger)
    pack = partial(_pack, chain=chain, verify_signature=settings.verify == "full")
    step = ShardStep(
        VARIABLES, partial(_take, chain=chain, fetch_first=EntryFetcher(RecordFetcher.of(kafka, "entries")))
    )
    judged = step_by_shard(map_batches(records, pack, _PACKED), step, _OUTPUT)
    observed = judged.observe(WAITING, F.collect_list("waiting").alias(WAITING))
    return with_full_topics(observed.where("value IS NOT NULL").drop("waiting"), kafka)


JOB = StreamingJob(
    logs_query,
    LogsSettings,
    prepare=log_table.prepare,
    waits=(
        "logs wait for earlier entries that did not come: a connector that holds them produces them again, "
        "and `culm logs repair` does so for one that is stopped"
    ),
)


def _pack(batches: Batches, *, chain: ChainSettings, verify_signature: bool) -> Iterator[Piece]:
    for batch in batches:
        for rows in pack_records(list(rows_of(batch)), chain, verify_signature=verify_signature):
            yield columns_of([rows])


def _take(
    shard: Shard, packed: list[Any], *, chain: ChainSettings, fetch_first: FetchFirst
) -> Iterator[Piece]:
    now_ms = time.time_ns() // 1_000_000
    output = step(shard.state, unpack_rows(packed), chain, fetch_first, now_ms=now_ms)
    for topic, records in (("logs", output.logs), ("rejected", output.rejected)):
        if records:
            yield [topic] * len(records), *columns_of(records), [None] * len(records)
    if (waiting := output.waiting) is not None:
        yield [None], [None], [None], [{"shard": shard.number, **waiting._asdict()}]
