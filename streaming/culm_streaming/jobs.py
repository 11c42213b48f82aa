"""What a job's package gives to be run, and how the table of jobs (`culm_topics.catalogue.jobs`) leads to it.

Light to import: no Spark.
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
    """What runs a job: `records` makes those for Kafka's sink, `settings` the settings where none are given.

    A job with timers needs micro-batches without records too: `timer_interval_ms` says how often at most.
    A job with `stages` gives each record a column `stage`: nothing of a stage is written before Kafka has
    acknowledged all of the stage before.
    """

    records: Callable[[SparkSession, KafkaSettings, Settings], DataFrame]
    settings: Callable[[], Settings]
    output_mode: Literal["append", "update"] = "append"
    timer_interval_ms: Callable[[Settings], int] | None = None
    stages: int = 1
    restored: Callable[[SparkSession, KafkaSettings, Settings], DataFrame | None] | None = None
    """In place of `records` where the checkpoint is new: from what the job has written; None: nothing."""
    prepare: Callable[[], None] | None = None
    """Makes what all workers need alike, in the process that they are forked from."""
    waits: str | None = None
    """What its query observes as `waiting`, and what to do about what waits for long: a sentence that begins
    with the number of these things, without the number."""


def load_job(name: str) -> StreamingJob[Any]:
    """What the table names for this job."""
    module, _, attribute = job_named(name).load.partition(":")
    return cast("StreamingJob[Any]", getattr(importlib.import_module(module), attribute))


def topics_of(name: str, kafka: KafkaSettings) -> tuple[str, ...]:
    """Every topic of the job in this deployment, sorted."""
    job = job_named(name)
    return tuple(sorted(kafka.topic(topic) for topic in {*job.reads, *job.writes}))


def topics_read(name: str, kafka: KafkaSettings) -> set[str]:
    """The topics of this deployment that the job reads."""
    return {kafka.topic(topic) for topic in job_named(name).reads}
