"""A job that reads and writes nothing of it, as another package would bring it: this file and one entry."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from culm_streaming.jobs import StreamingJob
from culm_streaming.kafka_io.topics import kafka_source
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.topic_spec import JobSpec

ENTRY = JobSpec(
    name="no-op",
    reads=("version-vectors",),
    writes=("rejected",),
    load="tests.support.spark.noop_job:JOB",
    doc="nothing",
    group="tests",
    stateful=False,
)


@dataclass(frozen=True, slots=True)
class NoopSettings:
    """What the job may be told."""

    max_offsets_per_trigger: int = 10


def noop_query(session: SparkSession, kafka: KafkaSettings, settings: NoopSettings) -> DataFrame:
    """None of the records that it reads."""
    records = kafka_source(
        session, kafka, ENTRY.reads, max_offsets_per_trigger=settings.max_offsets_per_trigger
    )
    return records.select(F.lit(kafka.topic("rejected")).alias("topic"), "key", "value").where(F.lit(False))


JOB = StreamingJob(noop_query, NoopSettings)
