"""The status document of a process that runs jobs: its queries, their rates, lag, and latest failures."""

import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Final, Literal

from culm_streaming.metrics import JobHealth
from culm_streaming.progress import BatchProgress, Place
from culm_streaming.supervision.failures import Failure
from culm_topics.process_status import ProcessStatus

_RATE_S: Final = 60.0
_MAX_BATCHES: Final = 1_000

QueryState = Literal["starting", "running", "restarting", "done", "stopped"]


@dataclass(slots=True)
class _Query:
    """The numbers of one query since the start of the process."""

    checkpoint: str
    state: QueryState = "starting"
    is_stalled: bool = False
    lag: Mapping[str, int] | None = None
    rows_in: int = 0
    rows_out: int = 0
    rejected: int = 0
    batches: int = 0
    latest: BatchProgress | None = None
    latest_ms: int | None = None
    checkpoint_ms: int | None = None
    failures: int = 0
    last_error: Mapping[str, Any] | None = None
    recent: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=_MAX_BATCHES))
    """Monotonic time and records read of the latest micro-batches."""


class JobStatus:
    """Reports of the runner of the jobs, and the document made of them; for any thread.

    `fields` are those that do not change: which jobs run, and with what.
    """

    def __init__(self, process: ProcessStatus, health: JobHealth, fields: Mapping[str, Any]) -> None:
        self.process = process
        self.state = "starting Spark"
        self.metrics_address: str | None = None
        self._health = health
        self._fields = dict(fields)
        self._lock = Lock()
        self._queries: dict[str, _Query] = {}

    def add(self, job: str, checkpoint: str) -> None:
        """Add a query that is about to start from this checkpoint."""
        with self._lock:
            self._queries[job] = _Query(checkpoint)

    def set_checkpoint(self, job: str, committed_ms: int) -> None:
        """Set when a micro-batch of a query was last committed."""
        with self._lock:
            self._queries[job].checkpoint_ms = committed_ms

    def set_state(self, job: str, state: QueryState) -> None:
        """Set whether a query runs."""
        with self._lock:
            self._queries[job].state = state

    def set_lag(self, job: str, lag: Mapping[Place, int], *, is_stalled: bool) -> None:
        """Set the lag by partition, and whether the query makes no progress although there is data."""
        topics: Counter[str] = Counter()
        for (topic, _), records in lag.items():
            topics[topic] += records
        with self._lock:
            query = self._queries[job]
            query.lag, query.is_stalled = topics, is_stalled

    def record(self, progress: BatchProgress) -> None:
        """Add a micro-batch."""
        with self._lock:
            query = self._queries[progress.job]
            query.rows_in += progress.rows_in
            query.rows_out += progress.rows_out or 0
            query.rejected += progress.rejected
            query.batches += 1
            query.latest, query.latest_ms = progress, _now_ms()
            query.checkpoint_ms = progress.committed_ms or query.checkpoint_ms
            query.recent.append((time.monotonic(), progress.rows_in))

    def add_failure(self, job: str, failure: Failure) -> None:
        """Add a failure that is retried."""
        with self._lock:
            query = self._queries[job]
            query.failures += 1
            query.last_error = {
                "time_ms": _now_ms(),
                "kind": failure.kind,
                "cause": failure.cause,
                "hint": failure.hint,
            }

    def document(self) -> Mapping[str, Any]:
        """Return the current document."""
        with self._lock:
            queries = [_document(job, query) for job, query in self._queries.items()]
        return self.process.document(
            self.state,
            self._health.reasons,
            **self._fields,
            metrics_address=self.metrics_address,
            last_progress_ms=max(
                (query["last_progress_ms"] for query in queries if query["last_progress_ms"] is not None),
                default=None,
            ),
            queries=queries,
        )


def _document(job: str, query: _Query) -> dict[str, Any]:
    latest = query.latest
    return {
        "job": job,
        "state": query.state,
        "stalled": query.is_stalled,
        "checkpoint": query.checkpoint,
        "checkpoint_ms": query.checkpoint_ms,
        "lag": None if query.lag is None else dict(query.lag),
        "last_progress_ms": query.latest_ms,
        "rows_in": query.rows_in,
        "rows_out": query.rows_out,
        "rejected": query.rejected,
        "batches": query.batches,
        "rows_per_second": _rate(query.recent),
        "latest_batch": None
        if latest is None
        else {
            "batch_id": latest.batch_id,
            "rows_in": latest.rows_in,
            "rows_out": latest.rows_out,
            "rejected": latest.rejected,
            "duration_ms": latest.duration_ms,
            "state_rows": latest.state_rows,
            "state_bytes": latest.state_bytes,
        },
        "failures": query.failures,
        "last_error": query.last_error,
    }


def _rate(recent: Iterable[tuple[float, int]]) -> float:
    """Return the records read per second over the last minute."""
    now_s = time.monotonic()
    return round(sum(rows for time_s, rows in recent if now_s - time_s <= _RATE_S) / _RATE_S, 1)


def _now_ms() -> int:
    return int(time.time() * 1000)
