"""A job whose Python worker is late at the start begins again, a bounded number of times."""

from __future__ import annotations

from threading import Event
from typing import Any

import pytest

from culm_streaming import run
from culm_streaming.errors import JobError
from culm_streaming.run import RunSettings, run_jobs
from culm_topics.kafka import KafkaSettings

LATE = RuntimeError("[STREAM_FAILED] terminated with exception: Python worker failed to connect back.")
SETTINGS = RunSettings(kafka=KafkaSettings(bootstrap="none:1"), checkpoints="none", jobs=("logs",), once=True)


class EndedQuery:
    """A query that has ended: with this error, or with its work done."""

    isActive = False
    lastProgress = None

    def __init__(self, error: Exception | None) -> None:
        self._error = error

    def exception(self) -> Exception | None:
        return self._error

    def stop(self) -> None:
        pass


def starts(monkeypatch: pytest.MonkeyPatch, errors: list[Exception | None]) -> list[Any]:
    """Let each start of a job end with the next of these errors; returns the jobs that were started."""
    started: list[Any] = []

    def start(_session: object, _settings: object, job: str) -> EndedQuery:
        started.append(job)
        return EndedQuery(errors[min(len(started), len(errors)) - 1])

    monkeypatch.setattr(run, "_start", start)
    monkeypatch.setattr(run, "_POLL_SECONDS", 0)
    return started


def test_a_late_worker_is_waited_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    started = starts(monkeypatch, [LATE, LATE, None])
    run_jobs(None, SETTINGS, stop=Event())  # type: ignore[arg-type]
    assert started == ["logs"] * 3


def test_a_worker_that_never_comes_fails_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    started = starts(monkeypatch, [LATE])
    with pytest.raises(JobError, match="connect back"):
        run_jobs(None, SETTINGS, stop=Event())  # type: ignore[arg-type]
    assert len(started) == 20


def test_any_other_failure_fails_the_job_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    started = starts(monkeypatch, [RuntimeError("the topic was deleted")])
    with pytest.raises(JobError, match="deleted"):
        run_jobs(None, SETTINGS, stop=Event())  # type: ignore[arg-type]
    assert started == ["logs"]
