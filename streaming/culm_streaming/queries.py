"""The query of a job: its records, its checkpoint compared with its topics, its sink and its trigger."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from culm_streaming.blocks import BlocksSettings, blocks_query
from culm_streaming.checkpoint import Belonging, Checkpoint
from culm_streaming.jobs import JOBS, TOPICS, Job
from culm_streaming.logs import LogsSettings, logs_query
from culm_streaming.progress import OBSERVED, REJECTED
from culm_streaming.sds import SdsJobSettings, sds_query
from culm_streaming.sds_index import SdsIndexSettings, sds_index_query
from culm_streaming.topics import kafka_sink
from culm_streaming.version_vectors import VersionVectorsSettings, version_vectors_query
from culm_topics.kafka import KafkaSettings
from culm_topics.origin import Origin


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What to run and from where to resume.

    `checkpoints` is a directory or any URL that Spark can write; each job has a folder in it. `once` takes
    what is there now and ends; else micro-batches start at most every `interval_ms`, and those of a job that
    has timers at most as often as its settings say. A query that has something to read and ends no
    micro-batch for `stall_seconds` is not ready.
    """

    kafka: KafkaSettings
    checkpoints: str
    jobs: Sequence[Job] = JOBS
    logs: LogsSettings = field(default_factory=LogsSettings)
    version_vectors: VersionVectorsSettings = field(default_factory=VersionVectorsSettings)
    blocks: BlocksSettings = field(default_factory=BlocksSettings)
    sds: SdsJobSettings = field(default_factory=SdsJobSettings)
    sds_index: SdsIndexSettings = field(default_factory=SdsIndexSettings)
    once: bool = False
    interval_ms: int = 0
    stall_seconds: float = 120.0
    stop_timeout_seconds: float = 60.0

    def checkpoint(self, job: Job) -> str:
        """The folder of a job's checkpoint."""
        return f"{self.checkpoints.rstrip('/')}/{job}"


def open_checkpoint(session: SparkSession, settings: RunSettings, job: Job, origin: Origin) -> Checkpoint:
    """The job's checkpoint, which belongs to these topics.

    Raises `OriginChanged`, `StateLayoutError` and `CheckpointError`.
    """
    topics = TOPICS[job]
    ids = {name: origin.topic_ids[name] for name in topics.full_names(settings.kafka)}
    partitions = int(session.conf.get("spark.sql.shuffle.partitions") or 0) if topics.stateful else None
    checkpoint = Checkpoint(session, settings.checkpoint(job))
    checkpoint.bind(Belonging(Origin(origin.cluster_id, ids), partitions))
    return checkpoint


def start_query(session: SparkSession, settings: RunSettings, job: Job) -> StreamingQuery:
    """Start the query of a job from its checkpoint."""
    interval_ms = settings.interval_ms
    if job == "sds" and not settings.once:
        # Its timers expire in micro-batches, which must come without records too. One that is to end has none
        # of these: they would go on for ever.
        session = session.newSession()
        session.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "true")
        interval_ms = interval_ms or settings.sds.interval_ms
    records, mode = _QUERIES[job](session, settings)
    is_rejected = F.col("topic") == settings.kafka.topic("rejected")
    records = records.observe(OBSERVED, F.count_if(is_rejected).alias(REJECTED))
    writer = kafka_sink(records, settings.kafka, settings.checkpoint(job)).queryName(job).outputMode(mode)
    if settings.once:
        writer = writer.trigger(availableNow=True)
    elif interval_ms:
        writer = writer.trigger(processingTime=f"{interval_ms} milliseconds")
    return writer.start()


_QUERIES: Final[dict[Job, Callable[[SparkSession, RunSettings], tuple[DataFrame, str]]]] = {
    "logs": lambda session, run: (logs_query(session, run.kafka, run.logs), "append"),
    "version-vectors": lambda session, run: (
        version_vectors_query(session, run.kafka, run.version_vectors),
        "update",
    ),
    "blocks": lambda session, run: (blocks_query(session, run.kafka, run.blocks), "append"),
    "sds": lambda session, run: (sds_query(session, run.kafka, run.sds), "append"),
    "sds-index": lambda session, run: (sds_index_query(session, run.kafka, run.sds_index), "append"),
}
"""Of each job the records for Kafka's sink, and its output mode."""
