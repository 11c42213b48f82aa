"""Runs jobs in one Spark session: starts their queries, watches them, and stops them between micro-batches.

A job that ends by itself has failed, and the process with it: to run on with half the jobs would look
healthy and is not. Every job resumes from its checkpoint.
"""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import Final, Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from culm_streaming.blocks import BlocksSettings, blocks_query
from culm_streaming.errors import JobError
from culm_streaming.logs import LogsSettings, logs_query
from culm_streaming.metrics import JobMetrics
from culm_streaming.progress import OBSERVED, REJECTED, BatchProgress, read_progress
from culm_streaming.sds import SdsJobSettings, sds_query
from culm_streaming.sds_index import SdsIndexSettings, sds_index_query
from culm_streaming.topics import kafka_sink
from culm_streaming.version_vectors import VersionVectorsSettings, version_vectors_query
from culm_topics.kafka import KafkaSettings

Job = Literal["logs", "version-vectors", "blocks", "sds", "sds-index"]
JOBS: Final[tuple[Job, ...]] = ("logs", "version-vectors", "blocks")
"""The jobs of p2panda, which run by default."""
SDS_JOBS: Final[tuple[Job, ...]] = ("sds", "sds-index")

_LOG = logging.getLogger(__name__)
_STARTS: Final = 20
_POLL_SECONDS = 0.25
_STOP_POLL_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What to run and from where to resume.

    `checkpoints` is a directory or any URL that Spark can write; each job has a folder in it. `once` takes
    what is there now and ends; else micro-batches start at most every `interval_ms`, and those of a job that
    has timers at most as often as its settings say.
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
    stop_timeout_seconds: float = 60.0


def run_jobs(
    session: SparkSession,
    settings: RunSettings,
    *,
    stop: Event,
    metrics: JobMetrics | None = None,
    on_progress: Callable[[BatchProgress], None] | None = None,
) -> None:
    """Run the jobs until `stop` is set, or with `once` until everything is read.

    Raises `JobError` when a job fails; the others are stopped then.
    """
    running: list[_Running] = []
    try:
        for job in settings.jobs:
            running.append(_Running(job, _start(session, settings, job)))
            _LOG.info("job started", extra={"job": job, "checkpoint": _checkpoint(settings, job)})
            if metrics is not None:
                metrics.set_up(job, is_up=True)
        while running and not stop.wait(_POLL_SECONDS):
            for one in list(running):
                # First whether it runs, then what it did: the last micro-batch must not be missed.
                is_active = one.query.isActive
                _report(one, metrics, on_progress)
                if is_active:
                    continue
                if one.starts < _STARTS and is_worker_late(one.query.exception()):
                    _LOG.warning("job started again: its Python worker was late", extra={"job": one.job})
                    one.query = _start(session, settings, one.job)
                    one.starts += 1
                    continue
                _check_end(one, settings)
                running.remove(one)
    finally:
        _stop_all(running, settings.stop_timeout_seconds)
        for one in running:
            _report(one, metrics, on_progress)
            _LOG.info("job stopped", extra={"job": one.job})
        if metrics is not None:
            for job in settings.jobs:
                metrics.set_up(job, is_up=False)


@dataclass(slots=True)
class _Running:
    job: Job
    query: StreamingQuery
    reported: int = -1
    starts: int = 1


def _start(session: SparkSession, settings: RunSettings, job: Job) -> StreamingQuery:
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
    writer = kafka_sink(records, settings.kafka, _checkpoint(settings, job)).queryName(job).outputMode(mode)
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


def _checkpoint(settings: RunSettings, job: Job) -> str:
    return f"{settings.checkpoints.rstrip('/')}/{job}"


def _report(
    one: _Running, metrics: JobMetrics | None, on_progress: Callable[[BatchProgress], None] | None
) -> None:
    latest = one.query.lastProgress
    if latest is None or int(latest["batchId"]) <= one.reported:
        return
    for report in one.query.recentProgress:
        progress = read_progress(one.job, report)
        if progress.batch_id <= one.reported or not progress.rows_in:
            continue
        one.reported = progress.batch_id
        if metrics is not None:
            metrics.record(progress)
        if on_progress is not None:
            on_progress(progress)
        _LOG.info(
            "micro-batch done",
            extra={
                "job": progress.job,
                "batch_id": progress.batch_id,
                "rows_in": progress.rows_in,
                "rejected": progress.rejected,
                "duration_ms": progress.duration_ms,
                "lag": sum(progress.lag.values()),
            },
        )


def is_worker_late(error: Exception | None) -> bool:
    """Whether a query failed for want of the Python process that declares its state.

    Spark waits 10 seconds for it, which cannot be set, before anything is read: too little on a machine
    that is busy, as with several jobs that start at once.
    """
    return error is not None and "Python worker failed to connect back" in str(error)


def _check_end(one: _Running, settings: RunSettings) -> None:
    """A query that is no longer active has done what `once` asked for, or it has failed."""
    error = one.query.exception()
    if error is not None:
        raise JobError(f"the job {one.job} failed: {_cause(str(error))}") from error
    if not settings.once:
        raise JobError(f"the job {one.job} ended by itself")


def _cause(text: str) -> str:
    """The lines of Spark's long report that say what went wrong."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [
        line for line in lines if "Error: " in line or "Exception: " in line or line.startswith("Caused by")
    ]
    chosen = [*lines[:1], *[line for line in telling if line not in lines[:1]][-3:]]
    return " | ".join(line[:500] for line in chosen) or "no reason given"


def _stop_all(running: Sequence[_Running], timeout_seconds: float) -> None:
    """Stop each query right after the micro-batch that it is in, so that little is done twice.

    A query that does not finish in time is interrupted: its micro-batch is done again after a restart.
    """
    deadline = time.monotonic() + timeout_seconds
    for one in running:
        batch = _batch_id(one.query)
        while (
            time.monotonic() < deadline
            and one.query.isActive
            and one.query.status["isTriggerActive"]
            and one.query.status["isDataAvailable"]
            and _batch_id(one.query) == batch
        ):
            time.sleep(_STOP_POLL_SECONDS)
        one.query.stop()


def _batch_id(query: StreamingQuery) -> int:
    latest = query.lastProgress
    return -1 if latest is None else int(latest["batchId"])
