"""Rates in rows per second of a job and of a query that only copies, in one Spark session."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from functools import reduce
from threading import Event
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.rig import Rig
from culm_infra.stack import find_java, jars
from culm_streaming.kafka_io.topics import kafka_sink, kafka_source
from culm_streaming.progress import BatchProgress, read_progress
from culm_streaming.run import RunSettings, run_jobs
from culm_streaming.session import SparkSessionSettings, start_session
from culm_topics.kafka.clients import KafkaSettings


@contextlib.contextmanager
def spark_session(rig: Rig) -> Iterator[SparkSession]:
    """Start a session on all cores."""
    session = start_session(
        SparkSessionSettings(
            jars=jars.ensure("spark"),
            master=f"local[{os.cpu_count() or 1}]",
            java_home=find_java().home,
            log_file=rig.folder / "spark.log",
        )
    )
    try:
        yield session
    finally:
        session.stop()


def take_all(
    session: SparkSession, kafka: KafkaSettings, job: str, settings: Any, checkpoints: str
) -> list[BatchProgress]:
    """Run a job until it has processed all present records. Returns its micro-batches."""
    seen: list[BatchProgress] = []
    run = RunSettings(
        kafka=kafka, checkpoints=checkpoints, jobs=(job,), job_settings={job: settings}, once=True
    )
    run_jobs(session, run, stop=Event(), on_progress=seen.append)
    return seen


def passthrough(
    session: SparkSession,
    source: KafkaSettings,
    sink: KafkaSettings,
    takes: Mapping[str, int],
    to: str,
    checkpoint: str,
) -> float:
    """Return the rate of a query that copies topics to another one, with `takes` records per micro-batch."""
    read = [
        kafka_source(session, source, (name,), max_offsets_per_trigger=limit) for name, limit in takes.items()
    ]
    copied = reduce(DataFrame.union, read).select(F.lit(sink.topic(to)).alias("topic"), "key", "value")
    query = kafka_sink(copied, sink, checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
    return steady_rate([read_progress("copy", report) for report in query.recentProgress])


def steady_rate(seen: list[BatchProgress]) -> float:
    """Return rows per second of all micro-batches except the first, which warms up."""
    largest = max(batch.rows_in for batch in seen)
    # A last micro-batch may have a few rows that rounding by partition left over.
    counted = [batch for batch in seen if 2 * batch.rows_in > largest][1:]
    assert counted, "too few micro-batches to leave the first one out"
    return 1_000 * sum(batch.rows_in for batch in counted) / sum(batch.duration_ms for batch in counted)
