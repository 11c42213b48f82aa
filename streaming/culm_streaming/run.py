"""Runs jobs in one Spark session: starts their queries, watches them, and stops them between micro-batches.

The run waits for temporary failures to pass (Kafka is unreachable, a worker died), and logs them. A job that
fails permanently ends the process: with only some of its jobs, the process would look healthy without being
so. Every job resumes from its checkpoint, after a check that the checkpoint belongs to the existing topics.
"""

import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from threading import Event
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from culm_streaming.jobs import load_job, topics_of, topics_read
from culm_streaming.kafka_io.watch import KafkaWatch
from culm_streaming.metrics import PATIENCE_SECONDS, JobHealth, JobMetrics, WaitingWatch
from culm_streaming.progress import BatchProgress
from culm_streaming.status import JobStatus
from culm_streaming.supervision.executors import ExecutorWatch
from culm_streaming.supervision.queries import RunSettings, open_checkpoint, start_query
from culm_streaming.supervision.restarts import SupervisedQuery
from culm_streaming.supervision.spark_end import spark_may_end
from culm_topics.catalogue.jobs import job_named
from culm_topics.catalogue.topics import spec
from culm_topics.errors import TopicsError
from culm_topics.kafka import clients as kafka
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.kafka.job_positions import PositionsPublisher
from culm_topics.kafka.origin import ask_origin
from culm_topics.process_status import ProcessStatus

__all__ = ["RunSettings", "run_jobs"]

_LOG = logging.getLogger(__name__)
_POLL_SECONDS: Final = 0.25
_HEALTH_SECONDS: Final = 1.0
_STOP_POLL_SECONDS: Final = 0.01


def run_jobs(
    session: SparkSession,
    settings: RunSettings,
    *,
    stop: Event,
    metrics: JobMetrics | None = None,
    health: JobHealth | None = None,
    status: JobStatus | None = None,
    on_progress: Callable[[BatchProgress], None] | None = None,
) -> None:
    """Run the jobs until `stop` is set, or with `once` until everything is read.

    Raises `JobError` if a job fails permanently, `JobGivenUp` if a temporary failure did not pass,
    `OriginChanged` if the topics are not those of a checkpoint or were created again during the run,
    `CheckpointError`, `StateLayoutError`, `TopicMissing` and `KafkaFailure`. The other jobs are stopped then.
    """
    with spark_may_end(session, stop):
        health = health or JobHealth()
        status = status or JobStatus(ProcessStatus("job", settings.kafka), health, {})
        _run(session, settings, stop, metrics or JobMetrics(), health, status, on_progress)


def _run(
    session: SparkSession,
    settings: RunSettings,
    stop: Event,
    metrics: JobMetrics,
    health: JobHealth,
    status: JobStatus,
    on_progress: Callable[[BatchProgress], None] | None,
) -> None:
    admin = kafka.admin(settings.kafka)
    origin = ask_origin(admin, {name for job in settings.jobs for name in topics_of(job, settings.kafka)})
    # All checkpoints before any query starts: nothing is read or written if one of them does not belong here.
    checkpoints = {job: open_checkpoint(session, settings, job, origin) for job in settings.jobs}
    read = {name for job in settings.jobs for name in topics_read(job, settings.kafka)}
    publisher = PositionsPublisher(settings.kafka)
    watch = KafkaWatch(admin, origin, read, publisher.publish)
    running = _Running(session, settings, watch, publisher, metrics, health, status, on_progress)
    status.state = "starting the jobs"
    try:
        for job, checkpoint in checkpoints.items():
            planned = checkpoint.planned()
            if planned is None and load_job(job).restored is None:
                watch.ask()
                _report_expired(job, settings.kafka, watch, metrics)
            status.add(job, checkpoint.folder)
            metrics.add(job)
            if (committed_ms := checkpoint.committed_ms()) is not None:
                status.set_checkpoint(job, committed_ms)
                metrics.set_checkpoint(job, committed_ms)
            running.start(job, {} if planned is None else dict(planned.positions))
            _LOG.info("job started", extra={"job": job, "checkpoint": checkpoint.folder})
        watch.start()
        status.state = "running"
        while running.jobs and not stop.wait(_POLL_SECONDS):
            running.poll()
    finally:
        # Load balancers and alerts first: a thread that waits for Kafka may take seconds to end.
        running.announce_stop()
        watch.stop()
        running.stop()
        if watch.is_up:
            publisher.publish()


def _report_expired(job: str, settings: KafkaSettings, watch: KafkaWatch, metrics: JobMetrics) -> None:
    """Report records that a job without a checkpoint can no longer read; Spark silently skips them."""
    inputs = {settings.topic(name) for name in job_named(job).reads if spec(name).cleanup == "time"}
    removed = watch.removed(inputs)
    records = sum(removed.values())
    metrics.set_expired(job, records)
    if records:
        _LOG.warning(
            "job begins without a checkpoint, and %d records of %s were removed before it could read them: "
            "docs/operating.md explains this under 'Records that expired'",
            records,
            ", ".join(sorted({topic for topic, _ in removed})),
            extra={"job": job},
        )


class _Running:
    """The running jobs, their progress and their health."""

    def __init__(
        self,
        session: SparkSession,
        settings: RunSettings,
        watch: KafkaWatch,
        publisher: PositionsPublisher,
        metrics: JobMetrics,
        health: JobHealth,
        status: JobStatus,
        on_progress: Callable[[BatchProgress], None] | None,
    ) -> None:
        self.jobs: list[SupervisedQuery] = []
        self._session = session
        self._settings = settings
        self._watch = watch
        self._publisher = publisher
        self._executors = ExecutorWatch(session)
        self._metrics = metrics
        self._health = health
        self._status = status
        self._on_progress = on_progress
        self._health_s = 0.0
        self._waiting = {
            job: WaitingWatch(job, waits, metrics)
            for job in settings.jobs
            if (waits := load_job(job).waits) is not None
        }

    def start(self, job: str, positions: dict[tuple[str, int], int]) -> None:
        """Start a job at these positions."""
        supervised = SupervisedQuery(
            job,
            partial(start_query, self._session, self._settings, job),
            once=self._settings.once,
            topics_changed=self._topics_changed,
            on_failure=lambda _kind: self._count_failure(supervised),
        )
        supervised.positions = positions
        self.jobs.append(supervised)
        supervised.start()
        self._set_up(supervised)
        self._metrics.set_progress(job)

    def poll(self) -> None:
        """Check every job once; raises the error that ends the run."""
        if (changed := self._watch.changed()) is not None:
            raise changed
        for supervised in list(self.jobs):
            # First whether it runs, then its progress: the last micro-batch must not be missed.
            is_done = supervised.poll()
            self._report(supervised)
            self._set_up(supervised)
            if is_done:
                self.jobs.remove(supervised)
                self._status.set_state(supervised.job, "done")
        if time.monotonic() - self._health_s >= _HEALTH_SECONDS:
            self._health_s = time.monotonic()
            self._look_at_health()

    def announce_stop(self) -> None:
        """Report from now on that the process stops and is not ready."""
        self._health.set_reasons("stopping")
        self._status.state = "stopping"
        self._metrics.set_health(kafka_up=self._watch.is_up, ready=False)

    def stop(self) -> None:
        """Stop each query right after its current micro-batch, and report the last ones."""
        _stop_all(
            [supervised.query for supervised in self.jobs if supervised.query is not None],
            self._settings.stop_timeout_seconds,
        )
        for supervised in self.jobs:
            self._report(supervised)
            self._status.set_state(supervised.job, "stopped")
            _LOG.info("job stopped", extra={"job": supervised.job})
        for watch in self._waiting.values():
            watch.look(patience_s=0.0 if self._settings.once else PATIENCE_SECONDS)
        for job in self._settings.jobs:
            self._metrics.set_up(job, is_up=False)

    def _set_up(self, supervised: SupervisedQuery) -> None:
        is_up = supervised.query is not None
        self._metrics.set_up(supervised.job, is_up=is_up)
        self._status.set_state(supervised.job, "running" if is_up else "restarting")

    def _count_failure(self, supervised: SupervisedQuery) -> None:
        if supervised.failure is not None:
            self._metrics.add_failure(supervised.job, supervised.failure.kind)
            self._status.add_failure(supervised.job, supervised.failure)

    def _topics_changed(self) -> TopicsError | None:
        self._watch.ask()
        return self._watch.changed()

    def _look_at_health(self) -> None:
        reasons = [away] if (away := self._watch.away()) is not None else []
        if (missing := self._executors.missing()) is not None:
            reasons.append(missing)
        patience_s = max(self._settings.stall_seconds, 2 * self._settings.interval_ms / 1000)
        for supervised in self.jobs:
            lag = self._watch.lag(supervised.positions, topics_read(supervised.job, self._settings.kafka))
            self._metrics.set_lag(supervised.job, lag)
            records = sum(lag.values())
            if not records and supervised.query is not None:
                supervised.progressed_s = time.monotonic()
                self._metrics.set_progress(supervised.job)
            seconds = time.monotonic() - supervised.progressed_s
            is_stalled = False
            if (waiting := supervised.waiting()) is not None:
                reasons.append(waiting)
            elif is_stalled := seconds > patience_s:
                reasons.append(f"{supervised.job}: {records} records behind, no progress for {seconds:.0f} s")
            self._status.set_lag(supervised.job, lag, is_stalled=is_stalled)
        for watch in self._waiting.values():
            watch.look()
        self._health.set_reasons(*reasons)
        self._metrics.set_health(kafka_up=self._watch.is_up, ready=not reasons)

    def _report(self, supervised: SupervisedQuery) -> None:
        for progress in supervised.new_progress():
            self._metrics.record(progress)
            self._status.record(progress)
            self._publisher.note(supervised.job, progress.positions)
            if supervised.job in self._waiting:
                self._waiting[supervised.job].take(progress)
            self._metrics.set_progress(supervised.job)
            if self._on_progress is not None:
                self._on_progress(progress)
            _LOG.info(
                "micro-batch done",
                extra={
                    "job": progress.job,
                    "batch_id": progress.batch_id,
                    "rows_in": progress.rows_in,
                    "rejected": progress.rejected,
                    "duration_ms": progress.duration_ms,
                    "lag": sum(progress.lag.values()),
                    **({"waiting": waiting.count} if (waiting := self._waiting.get(supervised.job)) else {}),
                },
            )


def _stop_all(queries: Sequence[StreamingQuery], timeout_seconds: float) -> None:
    """Stop each query right after its current micro-batch, so that little work is repeated.

    A query that does not finish in time is interrupted: its micro-batch is repeated after a restart.
    """
    deadline = time.monotonic() + timeout_seconds
    for query in queries:
        batch = _batch_id(query)
        while (
            time.monotonic() < deadline
            and query.isActive
            and query.status["isTriggerActive"]
            and query.status["isDataAvailable"]
            and _batch_id(query) == batch
        ):
            time.sleep(_STOP_POLL_SECONDS)
        query.stop()


def _batch_id(query: StreamingQuery) -> int:
    latest = query.lastProgress
    return -1 if latest is None else int(latest["batchId"])
