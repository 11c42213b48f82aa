"""Restarts one job after temporary failures, with growing pauses; raises permanent ones."""

import logging
import time
from collections.abc import Callable, Iterator
from typing import Final

from pyspark.sql.streaming.query import StreamingQuery

from culm_streaming.errors import JobError, JobGivenUp
from culm_streaming.progress import BatchProgress, Place, read_progress
from culm_streaming.supervision.failures import Failure, failure_of
from culm_streaming.supervision.worker_trial import WorkerTrial
from culm_topics.errors import TopicsError

logger = logging.getLogger(__name__)

_FIRST_PAUSE_SECONDS: Final = 1.0
_LONGEST_PAUSE_SECONDS: Final = 30.0
MAX_FAILURES: Final = 20
"""This many failures in a row, without a micro-batch between them, count as permanent.

A Kafka cluster may be unreachable for longer than that: the job waits for it, except with `once`. A machine
may be too busy for Spark's wait for a worker for longer, too: while a trial worker is slow as well, these
failures do not count.
"""


class SupervisedQuery:
    """A job, and its query while there is one.

    `start` starts the query. `topics_changed` returns an error if the topics are no longer the job's, as a
    possible reason for a failure. `on_failure` receives the kind of each failure that is retried.
    `try_worker` starts a trial worker after one was late.
    """

    def __init__(
        self,
        job: str,
        start: Callable[[], StreamingQuery],
        *,
        once: bool,
        topics_changed: Callable[[], TopicsError | None],
        on_failure: Callable[[str], None] = lambda _kind: None,
        try_worker: Callable[[], WorkerTrial] = WorkerTrial,
    ) -> None:
        self.job = job
        self.positions: dict[Place, int] = {}
        self.progressed_s = time.monotonic()
        self.query: StreamingQuery | None = None
        self.failure: Failure | None = None
        self._start = start
        self._once = once
        self._topics_changed = topics_changed
        self._on_failure = on_failure
        self._try_worker = try_worker
        self._trial: WorkerTrial | None = None
        self._reported = ""
        self._failures = 0
        self._next_start_s = 0.0

    def poll(self) -> bool:
        """Check the query; returns whether it has done everything that `once` requires.

        Raises `JobError` for a permanent failure, `JobGivenUp` for a temporary one that did not pass, and the
        error of `topics_changed`.
        """
        if self.query is None:
            if self._trial is not None:
                self._look_at_trial(self._trial)
            elif time.monotonic() >= self._next_start_s:
                self.start()
            return False
        if self.query.isActive:
            return False
        error = self.query.exception()
        if error is None:
            if self._once:
                return True
            raise JobError(f"the job {self.job} ended by itself")
        self._fail(error)
        return False

    def start(self) -> None:
        """Start the query; a temporary failure is handled by the next `poll`."""
        try:
            self.query = self._start()
        except Exception as error:
            self._fail(error)

    def new_progress(self) -> Iterator[BatchProgress]:
        """Yield the progress since the last call, without micro-batches that had nothing to read."""
        latest = None if self.query is None else self.query.lastProgress
        if self.query is None or latest is None or str(latest["timestamp"]) <= self._reported:
            return
        for report in self.query.recentProgress:
            # Not by the batch's number: a trigger without new records reports the number of the next batch.
            if str(report["timestamp"]) <= self._reported:
                continue
            self._reported = str(report["timestamp"])
            progress = read_progress(self.job, report)
            self.positions |= progress.positions
            self.failure, self._failures = None, 0
            if progress.rows_in:
                self.progressed_s = time.monotonic()
                yield progress

    def waiting(self) -> str | None:
        """Return what the next start waits for, in words; None while the query runs."""
        if self.query is not None or self.failure is None:
            return None
        if self._trial is not None:
            return f"{self.job}: a Python worker started late; another one is being tried"
        seconds = max(self._next_start_s - time.monotonic(), 0.0)
        return f"{self.job}: next start in {seconds:.0f} s, after: {self.failure.cause}"

    def _fail(self, error: Exception) -> None:
        self.query = None
        self.failure = failure = failure_of(error)
        if (changed := self._topics_changed()) is not None:
            raise changed from error
        if not failure.passes:
            raise JobError(f"the job {self.job} failed: {failure.cause}", hint=failure.hint) from error
        self._on_failure(failure.kind)
        if failure.kind == "late_worker":
            self._trial = self._try_worker()
            return
        self._schedule_start(failure, error)

    def _look_at_trial(self, trial: WorkerTrial) -> None:
        if (result := trial.result()) is None or self.failure is None:
            return
        self._trial = None
        if result.outcome == "broken":
            raise JobError(f"the job {self.job} failed: a Python worker cannot start: {result.cause}")
        if result.outcome == "in_time":
            self._schedule_start(self.failure)
        else:
            self._warn(self.failure, 0.0)

    def _schedule_start(self, failure: Failure, error: Exception | None = None) -> None:
        """Count a failure and schedule the next start. Raises `JobGivenUp` after too many."""
        self._failures += 1
        waits_for_kafka = failure.kind == "kafka" and not self._once
        if self._failures >= MAX_FAILURES and not waits_for_kafka:
            raise JobGivenUp(
                f"the job {self.job} failed {self._failures} times in a row: {failure.cause}",
                hint=failure.hint,
            ) from error
        pause_s = min(_FIRST_PAUSE_SECONDS * 2 ** (self._failures - 1), _LONGEST_PAUSE_SECONDS)
        self._next_start_s = time.monotonic() + pause_s
        self._warn(failure, pause_s)

    def _warn(self, failure: Failure, pause_s: float) -> None:
        is_late = failure.kind == "late_worker"
        logger.warning(
            "a Python worker was late: job starts again" if is_late else "job failed and starts again",
            extra={
                "job": self.job,
                "cause": failure.cause,
                "kind": failure.kind,
                "failures": self._failures,
                "pause_s": pause_s,
            },
        )
