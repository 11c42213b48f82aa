"""The end of Spark's JVM is part of a stop, or a reason to start the process again; never a socket error."""

from __future__ import annotations

from threading import Event
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError

from culm_streaming.errors import JobError, JobGivenUp
from culm_streaming.supervision import spark_end
from culm_streaming.supervision.spark_end import has_ended, spark_may_end


class _Session:
    """Stands for a session: what asking its context raises or answers."""

    def __init__(self, answer: bool | Exception) -> None:
        self.sparkContext = self
        self._jsc = self
        self._answer = answer

    def sc(self) -> _Session:
        return self

    def isStopped(self) -> bool:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


RUNS: Any = _Session(False)
GONE: Any = [_Session(ConnectionRefusedError(111, "Connection refused")), _Session(True)]
ERRORS = [
    ConnectionRefusedError(111, "Connection refused"),
    Py4JNetworkError("Answer from Java side is empty"),
    JobError("the job logs failed: SparkContext was shut down"),
]


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("session", GONE)
def test_it_is_part_of_a_requested_stop(session: Any, error: Exception) -> None:
    stop = Event()
    stop.set()
    with spark_may_end(session, stop):
        raise error


@pytest.mark.parametrize("error", ERRORS)
def test_without_one_the_process_asks_to_be_started_again(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_end, "_SIGNAL_SECONDS", 0.0)
    with pytest.raises(JobGivenUp, match="Java process has ended") as raised, spark_may_end(GONE[0], Event()):
        raise error
    assert raised.value.hint


@pytest.mark.parametrize("error", ERRORS)
def test_an_error_of_a_session_that_runs_is_raised_as_it_is(error: Exception) -> None:
    stop = Event()
    stop.set()
    assert not has_ended(RUNS)
    with pytest.raises(type(error)), spark_may_end(RUNS, stop):
        raise error
