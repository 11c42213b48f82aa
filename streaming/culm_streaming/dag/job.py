"""The job `dag`: derives records from `dag.nodes`, `dag.publishes`, `dag.shards` and `dag.blocked`.

Records are checked before the shuffle. After it, there are two stages with a state each, in one query with
one sink: `shards` by the CIDs of shards, which forwards all other rows, and `step` in one place.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from culm_models.dag.validation_rules import DEFAULT_RULES, ValidationRules
from culm_streaming.dag.packing import (
    PLACE,
    REPLICAS,
    SHARDS,
    Packed,
    Packing,
    pack_blocked,
    pack_nodes,
    pack_publishes,
    pack_shards,
)
from culm_streaming.dag.rows import ChunkRows, ReplicaRows
from culm_streaming.dag.settings import DagLayout
from culm_streaming.dag.shards import shards_step
from culm_streaming.dag.state import CHUNKS, HEAD, PIECES, SHARDS_KNOWN
from culm_streaming.dag.step import CachedReplicas, step
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
from culm_topics.dag.validation_rules import agree_on_rules
from culm_topics.kafka.clients import KafkaSettings

_PACKED = "place int, stage int, rows binary"
_PASSED_ON = "place int, rows binary"


@dataclass(frozen=True, slots=True)
class DagJobSettings:
    """Settings of the job.

    `verdict` is the deployment's (R28): the job does not start if the one in force differs.

    A record of `dag.shards` may hold 896 KiB.
    """

    verdict: ValidationRules = DEFAULT_RULES
    max_offsets_per_trigger: int = 50_000
    max_chunks_per_trigger: int = 128
    layout: DagLayout = field(default_factory=DagLayout)


def dag_query(session: SparkSession, kafka: KafkaSettings, settings: DagJobSettings) -> DataFrame:
    """Return the stream of records for Kafka's sink: `topic`, `key`, `value`, `partition`.

    Raises `RulesDiffer`, `RulesUnsupported`, `TopicMissing`, `KafkaFailure`.
    """
    agree_on_rules(kafka, settings.verdict)
    layout = settings.layout

    def packed(name: str, max_offsets: int, pack: Callable[..., Iterator[Packed]]) -> DataFrame:
        packing = Packing(layout, settings.verdict, kafka.topic(name))
        return _packed(kafka_records(session, kafka, name, max_offsets), pack, packing)

    max_offsets_per_trigger = settings.max_offsets_per_trigger
    everything = (
        packed("dag.nodes", max_offsets_per_trigger, pack_nodes)
        .union(packed("dag.publishes", max_offsets_per_trigger, pack_publishes))
        .union(packed("dag.shards", settings.max_chunks_per_trigger, pack_shards))
        .union(packed("dag.blocked", max_offsets_per_trigger, pack_blocked))
    )
    shards = ShardStep((SHARDS_KNOWN, CHUNKS), partial(_take_shards, verdict=settings.verdict))
    replicas = ShardStep((HEAD, PIECES), partial(_take_replicas, verdict=settings.verdict, layout=layout))
    passed_on = step_by_shard(everything, shards, _PASSED_ON)
    return with_full_topics(step_by_shard(passed_on, replicas), kafka)


JOB = StreamingJob(dag_query, DagJobSettings)


def _packed(records: DataFrame, pack: Callable[..., Iterator[Packed]], packing: Packing) -> DataFrame:
    def pack_task(batches: Batches) -> Iterator[Piece]:
        return (columns_of([rows]) for rows in pack(chain.from_iterable(map(rows_of, batches)), packing))

    return map_batches(records, pack_task, _PACKED)


def _take_shards(shard: Shard, packed: list[Any], *, verdict: ValidationRules) -> Iterator[Piece]:
    """Process the rows of the first stage; forward those of the second."""
    chunks = [blob for stage, blob in packed if stage == SHARDS]
    passed_on = [blob for stage, blob in packed if stage == REPLICAS]
    if chunks and (rows := shards_step(shard.state, ChunkRows.unpack(chunks), verdict)):
        passed_on.append(rows.pack())
    return (([PLACE], [blob]) for blob in passed_on)


_REMEMBERED = CachedReplicas()
"""Cache of this worker: the state of the one place, as of the last micro-batch that this worker processed."""


def _take_replicas(
    shard: Shard, packed: list[Any], *, verdict: ValidationRules, layout: DagLayout
) -> Iterator[Piece]:
    assert shard.number == PLACE
    rows = ReplicaRows.unpack(blob for (blob,) in packed)
    yield columns_of(step(shard.state, rows, verdict, layout, _REMEMBERED))
