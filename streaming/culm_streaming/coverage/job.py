"""The job `coverage`: `logs`, `fragments`, `payloads` and `holdings` to `coverage` and `rejected`.

Records are checked and reduced before the shuffle. After it, there are two stages with a state each, in one
query with one sink: `payloads` by the hashes of payloads, which forwards all other rows, and `step` by log.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

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
from culm_streaming.coverage.payloads import HASHES, payloads_step
from culm_streaming.coverage.rows import (
    CoverageRows,
    PayloadRows,
)
from culm_streaming.coverage.settings import CoverageLayout
from culm_streaming.coverage.state import VARIABLES
from culm_streaming.coverage.step import SourceTopics, place_of_log, step
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
from culm_topics.kafka.clients import KafkaSettings

Verify = Literal["full", "chain"]

_PACKED = "shard int, stage int, rows binary"
_PASSED_ON = "shard int, rows binary"


@dataclass(frozen=True, slots=True)
class CoverageSettings:
    """Settings of the job.

    `verify`: `full` checks the signatures of `fragments`, `chain` leaves that to the connectors.

    A record of `holdings` may hold 1,000 runs, one of `payloads` half a MiB, of which only the start is read.
    """

    verify: Verify = "full"
    max_offsets_per_trigger: int = 250_000
    max_fragments_per_trigger: int = 50_000
    max_holdings_per_trigger: int = 50_000
    max_payload_chunks_per_trigger: int = 2_000
    layout: CoverageLayout = field(default_factory=CoverageLayout)


def coverage_query(session: SparkSession, kafka: KafkaSettings, settings: CoverageSettings) -> DataFrame:
    """Return the stream of records for Kafka's sink: `topic`, `key`, `value`."""
    layout = settings.layout

    def packed(name: str, max_offsets: int, pack: Callable[..., Iterator[Packed]]) -> DataFrame:
        return _packed(kafka_records(session, kafka, name, max_offsets), pack, layout, kafka.topic(name))

    verify_signature = settings.verify == "full"
    chunks = kafka_records(session, kafka, "payloads", settings.max_payload_chunks_per_trigger).select(
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
        .union(_packed(chunks, pack_payloads, layout, kafka.topic("payloads")))
    )
    payloads = ShardStep((HASHES,), partial(_take_payloads, layout=layout))
    topics = SourceTopics(kafka.topic("fragments"), kafka.topic("holdings"))
    logs = ShardStep(VARIABLES, partial(_take_logs, layout=layout, topics=topics))
    passed_on = step_by_shard(everything, payloads, _PASSED_ON)
    return with_full_topics(step_by_shard(passed_on, logs), kafka)


JOB = StreamingJob(coverage_query, CoverageSettings)


def _packed(
    records: DataFrame, pack: Callable[..., Iterator[Packed]], layout: CoverageLayout, topic: str
) -> DataFrame:
    def pack_task(batches: Batches) -> Iterator[Piece]:
        # All rows of a task at once: the fewer rows a log has, the less they cost after the shuffle.
        yield columns_of(pack(chain.from_iterable(map(rows_of, batches)), layout, topic))

    return map_batches(records, pack_task, _PACKED)


def _take_payloads(shard: Shard, packed: list[Any], *, layout: CoverageLayout) -> Iterator[Piece]:
    """Process the rows of the first stage; forward those of the second."""
    payload_blobs = [blob for stage, blob in packed if stage == PAYLOADS]
    passed_on = [(shard.number, blob) for stage, blob in packed if stage == COVERAGE]
    if payload_blobs:
        output = payloads_step(shard.state, PayloadRows.unpack(payload_blobs), layout)
        by_shard: dict[int, CoverageRows] = {}
        for payloads in output.held:
            by_shard.setdefault(place_of_log(payloads.log, layout)[0], CoverageRows()).payloads.append(
                payloads
            )
        if output.refused:
            by_shard.setdefault(shard.number, CoverageRows()).refused += output.refused
        passed_on += [(number, rows.pack()) for number, rows in sorted(by_shard.items())]
    yield columns_of(passed_on)


def _take_logs(
    shard: Shard, packed: list[Any], *, layout: CoverageLayout, topics: SourceTopics
) -> Iterator[Piece]:
    output = step(shard.state, CoverageRows.unpack(blob for (blob,) in packed), layout, topics)
    yield columns_of(("coverage", key, value, None) for key, value in output.coverage)
    yield columns_of(("rejected", key, value, None) for key, value in output.rejected)
