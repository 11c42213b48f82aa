"""Metrics for Prometheus, probes and the log.

The label is `query`, since Prometheus itself uses `job`.
"""

import logging
import time
from collections.abc import Mapping
from importlib.metadata import version
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, GCCollector, Histogram, ProcessCollector

from culm_streaming.progress import BatchProgress, Place, Waiting

_SECONDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class JobMetrics:
    """The metrics of all jobs of one process, in a separate registry."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        query = ("query",)
        self._rows_in = Counter("culm_job_rows_in", "Records read.", query, registry=self.registry)
        self._rows_out = Counter("culm_job_rows_out", "Records written.", query, registry=self.registry)
        self._rejected = Counter("culm_job_rejected", "Records refused.", query, registry=self.registry)
        self._forks = Counter(
            "culm_job_forks", "Forks among the records refused.", query, registry=self.registry
        )
        self._batches = Counter("culm_job_batches", "Micro-batches done.", query, registry=self.registry)
        self._failures = Counter(
            "culm_job_failures",
            "Failures after which a query was started again, by kind.",
            ("query", "kind"),
            registry=self.registry,
        )
        self._seconds = Histogram(
            "culm_job_batch_seconds",
            "Time of a micro-batch.",
            query,
            registry=self.registry,
            buckets=_SECONDS,
        )
        self._batch_id = Gauge("culm_job_batch_id", "The latest micro-batch.", query, registry=self.registry)
        self._state_rows = Gauge(
            "culm_job_state_rows", "Keys in the state store.", query, registry=self.registry
        )
        self._state_bytes = Gauge(
            "culm_job_state_bytes", "Memory of the state store.", query, registry=self.registry
        )
        self._lag = Gauge(
            "culm_job_lag_records",
            "Records between what is read and the broker's end offset.",
            ("query", "topic", "partition"),
            registry=self.registry,
        )
        self._waiting = Gauge(
            "culm_job_waiting",
            "Logs that wait in the state for records that have not arrived (the jobs logs and documents).",
            query,
            registry=self.registry,
        )
        self._waiting_since_s = Gauge(
            "culm_job_waiting_since_timestamp_seconds",
            "Since when something has always waited; 0 while nothing does.",
            query,
            registry=self.registry,
        )
        self._expired = Gauge(
            "culm_job_expired_records",
            "Records that were gone before the query, which began without a checkpoint, could read them.",
            query,
            registry=self.registry,
        )
        self._checkpoint_s = Gauge(
            "culm_job_checkpoint_timestamp_seconds",
            "When a micro-batch with records was last committed to the checkpoint.",
            query,
            registry=self.registry,
        )
        self._up = Gauge("culm_job_up", "1 while the query runs.", query, registry=self.registry)
        self._ready = Gauge("culm_job_ready", "1 while /readyz answers 200.", registry=self.registry)
        self._kafka_up = Gauge("culm_kafka_up", "1 while Kafka answers.", registry=self.registry)
        self._progress_s = Gauge(
            "culm_last_progress_timestamp_seconds",
            "When the query last ended a micro-batch, or had nothing to read.",
            query,
            registry=self.registry,
        )
        Gauge("culm_build_info", "1, with the version.", ("version",), registry=self.registry).labels(
            version("culm")
        ).set(1)

    def add(self, job: str) -> None:
        """Begin the counters of a query at 0, so that the first refusal and the first fork are increases."""
        self._rejected.labels(job)
        self._forks.labels(job)

    def set_up(self, job: str, *, is_up: bool) -> None:
        """Set whether a query runs."""
        self._up.labels(job).set(1 if is_up else 0)

    def set_health(self, *, kafka_up: bool, ready: bool) -> None:
        """Set whether Kafka answers, and whether `/readyz` answers with 200."""
        self._kafka_up.set(1 if kafka_up else 0)
        self._ready.set(1 if ready else 0)

    def set_lag(self, job: str, lag: Mapping[Place, int]) -> None:
        """Set the lag of a query, in records by partition."""
        for (topic, partition), records in lag.items():
            self._lag.labels(job, topic, str(partition)).set(records)

    def set_waiting(self, job: str, count: int, since_ms: int) -> None:
        """Set how many things wait in the state of a query, and since when."""
        self._waiting.labels(job).set(count)
        self._waiting_since_s.labels(job).set(since_ms / 1000)

    def set_expired(self, job: str, records: int) -> None:
        """Set how many records were removed before a query without a checkpoint began."""
        self._expired.labels(job).set(records)

    def add_failure(self, job: str, kind: str) -> None:
        """Count a failure that is retried."""
        self._failures.labels(job, kind).inc()

    def set_progress(self, job: str) -> None:
        """Set the time of the latest progress to now."""
        self._progress_s.labels(job).set(time.time())

    def set_checkpoint(self, job: str, committed_ms: int) -> None:
        """Set when a micro-batch of a query was last committed."""
        self._checkpoint_s.labels(job).set(committed_ms / 1000)

    def record(self, progress: BatchProgress) -> None:
        """Add one micro-batch."""
        job = progress.job
        self._rows_in.labels(job).inc(progress.rows_in)
        if progress.rows_out is not None:
            self._rows_out.labels(job).inc(progress.rows_out)
        self._rejected.labels(job).inc(progress.rejected)
        self._forks.labels(job).inc(progress.forks)
        self._batches.labels(job).inc()
        self._seconds.labels(job).observe(progress.duration_ms / 1000)
        self._batch_id.labels(job).set(progress.batch_id)
        self._state_rows.labels(job).set(progress.state_rows)
        self._state_bytes.labels(job).set(progress.state_bytes)
        if progress.committed_ms is not None:
            self.set_checkpoint(job, progress.committed_ms)


class JobHealth:
    """The reasons why the process is not ready; set by the runner of the jobs, read by any thread."""

    def __init__(self) -> None:
        self._reasons: tuple[str, ...] = ("starting",)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Reasons why the jobs are not ready, one line each; empty when they are.

        Kafka does not answer, a query waits for its next start, or it makes no progress although there is
        data to read.
        """
        return self._reasons

    def set_reasons(self, *reasons: str) -> None:
        """Replace all reasons."""
        self._reasons = reasons


logger = logging.getLogger(__name__)

PATIENCE_SECONDS: Final = 60.0


class WaitingWatch:
    """Number of waiting things in one job, by shard. `waits` is the text that describes them."""

    def __init__(self, job: str, waits: str, metrics: JobMetrics) -> None:
        self._job = job
        self._waits = waits
        self._metrics = metrics
        self._shards: dict[int, Waiting] = {}
        self._is_warned = False

    @property
    def count(self) -> int:
        """Number of waiting things now."""
        return self._sum()[0]

    def take(self, progress: BatchProgress) -> None:
        """Process the numbers of a micro-batch."""
        self._shards.update(progress.waiting)
        count, since_ms = self._sum()
        self._metrics.set_waiting(self._job, count, since_ms)
        if self._is_warned and not count:
            self._is_warned = False
            logger.info("nothing waits any more", extra={"job": self._job})

    def look(self, *, patience_s: float = PATIENCE_SECONDS) -> None:
        """Log a warning once if something has waited longer than this, until nothing waits any more."""
        count, since_ms = self._sum()
        waited_s = time.time() - since_ms / 1000
        if count and not self._is_warned and waited_s >= patience_s:
            self._is_warned = True
            logger.warning(
                "%d %s", count, self._waits, extra={"job": self._job, "since_s": round(waited_s, 1)}
            )

    def _sum(self) -> tuple[int, int]:
        waiting = [shard for shard in self._shards.values() if shard.logs]
        return sum(shard.logs for shard in waiting), min((shard.since_ms for shard in waiting), default=0)
