"""The query of a job: its records, its checkpoint compared with its topics, its sink and its trigger."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from culm_models.bamboo.errors import ForkError
from culm_streaming.jobs import load_job, topics_of
from culm_streaming.kafka_io.topics import kafka_sink, staged_kafka_sink
from culm_streaming.progress import FORKS, OBSERVED, REJECTED
from culm_streaming.supervision.checkpoint import Belonging, Checkpoint
from culm_topics.catalogue.jobs import DEFAULT_GROUP, job_named, jobs_of
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.kafka.origin import Origin
from culm_topics.records.rejected import code_prefix


@dataclass(frozen=True, slots=True)
class RunSettings:
    """The jobs to run, and the checkpoints from which they resume.

    `checkpoints` is a directory or any URL that Spark can write; each job has a folder in it. `job_settings`
    maps the names of jobs to settings of their packages' classes. `once` processes the existing records and
    ends. Otherwise, micro-batches start at most every `interval_ms`, and those of a job with timers at most
    as often as its settings specify. A query that has data to read and ends no micro-batch for
    `stall_seconds` is not ready.
    """

    kafka: KafkaSettings
    checkpoints: str
    jobs: Sequence[str] = field(default_factory=lambda: jobs_of(DEFAULT_GROUP))
    job_settings: Mapping[str, Any] = field(default_factory=dict)
    once: bool = False
    interval_ms: int = 0
    stall_seconds: float = 120.0
    stop_timeout_seconds: float = 60.0

    def checkpoint(self, job: str) -> str:
        """Return the folder of a job's checkpoint."""
        return f"{self.checkpoints.rstrip('/')}/{job}"


def open_checkpoint(session: SparkSession, settings: RunSettings, job: str, origin: Origin) -> Checkpoint:
    """Open the job's checkpoint, which belongs to these topics.

    Raises `OriginChanged`, `StateLayoutError` and `CheckpointError`.
    """
    ids = {name: origin.topic_ids[name] for name in topics_of(job, settings.kafka)}
    stateful = job_named(job).stateful
    partitions = int(session.conf.get("spark.sql.shuffle.partitions") or 0) if stateful else None
    checkpoint = Checkpoint(session, settings.checkpoint(job))
    checkpoint.bind(Belonging(Origin(origin.cluster_id, ids), partitions))
    return checkpoint


def start_query(session: SparkSession, settings: RunSettings, job: str) -> StreamingQuery:
    """Start the query of a job from its checkpoint."""
    loaded = load_job(job)
    job_settings = settings.job_settings[job] if job in settings.job_settings else loaded.settings()
    interval_ms = settings.interval_ms
    if loaded.timer_interval_ms is not None and not settings.once:
        # Timers expire in micro-batches, which must occur without records, too. A run with `once` has none of
        # these micro-batches, because they would never end.
        session = session.newSession()
        session.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "true")
        interval_ms = interval_ms or loaded.timer_interval_ms(job_settings)
    records = None
    if loaded.restored is not None and Checkpoint(session, settings.checkpoint(job)).planned() is None:
        records = loaded.restored(session, settings.kafka, job_settings)
    if records is None:
        records = loaded.records(session, settings.kafka, job_settings)
    is_rejected = F.col("topic") == settings.kafka.topic("rejected")
    prefix = code_prefix(ForkError.code)
    is_fork = is_rejected & (F.substring("value", 1, len(prefix)) == F.lit(prefix))
    records = records.observe(
        OBSERVED, F.count_if(is_rejected).alias(REJECTED), F.count_if(is_fork).alias(FORKS)
    )
    checkpoint = settings.checkpoint(job)
    if loaded.stages == 1:
        writer = kafka_sink(records, settings.kafka, checkpoint)
    else:
        writer = staged_kafka_sink(records, settings.kafka, checkpoint, loaded.stages)
    writer = writer.queryName(job).outputMode(loaded.output_mode)
    if settings.once:
        writer = writer.trigger(availableNow=True)
    elif interval_ms:
        writer = writer.trigger(processingTime=f"{interval_ms} milliseconds")
    return writer.start()
