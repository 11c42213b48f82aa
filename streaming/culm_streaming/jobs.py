"""The interface of a job's package, and access to the table of jobs (`culm_topics.catalogue.jobs`).

Quick to import: without Spark.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast

from culm_topics.catalogue.jobs import job_named

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from culm_topics.kafka.clients import KafkaSettings

Settings = TypeVar("Settings")


@dataclass(frozen=True, slots=True)
class StreamingJob(Generic[Settings]):
    """The parts of a job: `records` creates those for Kafka's sink, `settings` the default settings.

    A job with timers needs micro-batches without records, too: `timer_interval_ms` is the shortest interval
    between them. A job with `stages` adds a column `stage` to each record: records of a stage are written
    after Kafka has acknowledged all records of the previous stage.
    """

    records: Callable[[SparkSession, KafkaSettings, Settings], DataFrame]
    settings: Callable[[], Settings]
    output_mode: Literal["append", "update"] = "append"
    timer_interval_ms: Callable[[Settings], int] | None = None
    stages: int = 1
    restored: Callable[[SparkSession, KafkaSettings, Settings], DataFrame | None] | None = None
    """Replaces `records` if the checkpoint is new: rebuilds records from the job's own output.

    Returns None if there is no such output.
    """
    prepare: Callable[[], None] | None = None
    """Creates data that all workers need, in the process from which they are forked."""
    waits: str | None = None
    """Log text about the observed metric `waiting`: what waits, and what to do if it waits long.

    A sentence that follows the number of waiting things, which is not part of it.
    """


def load_job(name: str) -> StreamingJob[Any]:
    """Import the job that the table names."""
    module, _, attribute = job_named(name).load.partition(":")
    return cast("StreamingJob[Any]", getattr(importlib.import_module(module), attribute))


def topics_of(name: str, kafka: KafkaSettings) -> tuple[str, ...]:
    """Return every topic of the job in this deployment, sorted."""
    job = job_named(name)
    return tuple(sorted(kafka.topic(topic) for topic in {*job.reads, *job.writes}))


def topics_read(name: str, kafka: KafkaSettings) -> set[str]:
    """Return the topics of this deployment that the job reads."""
    return {kafka.topic(topic) for topic in job_named(name).reads}
