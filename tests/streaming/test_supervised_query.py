"""What passes by itself starts a job again, a bounded number of times; what lasts ends it with its cause."""

from __future__ import annotations

import time
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError

from culm_streaming.errors import JobError, JobGivenUp
from culm_streaming.supervision import restarts as supervised
from culm_streaming.supervision import spark_end
from culm_streaming.supervision.failures import cause_of, failure_of
from culm_streaming.supervision.restarts import MAX_FAILURES, SupervisedQuery
from culm_streaming.supervision.spark_end import has_ended, spark_may_end
from culm_streaming.supervision.worker_trial import Outcome, TrialResult, WorkerTrial
from culm_topics.errors import KafkaFailure, OriginChanged, TopicsError

ROOT = Path(__file__).parents[2]
LATE = RuntimeError("[STREAM_FAILED] terminated with exception: Python worker failed to connect back.")
AWAY = RuntimeError(
    "Caused by: org.apache.kafka.common.errors.TimeoutException: Topic t not present in metadata"
)
KILLED = RuntimeError(
    "Caused by: org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)"
)
UNFORKED = RuntimeError(
    "Job aborted due to stage failure: Lost task 0.0 in stage 7.0: java.io.IOException: Stream closed\n"
    "\tat java.base/java.lang.ProcessBuilder$NullOutputStream.write(ProcessBuilder.java:445)\n"
    "\tat org.apache.spark.api.python.PythonWorkerFactory.$anonfun$stopWorker$1(PythonWorkerFactory.scala)\n"
)
LAYOUT = RuntimeError(
    "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted\n"
    "Traceback (most recent call last):\n"
    "culm_streaming.errors.StateLayoutError: the checkpoint has 3 shards of 2 blocks, not 16 of 64\n\n"
    "\tat org.apache.spark.api.python.PythonRunner.read(PythonRunner.scala:1)\n"
)
SASL = RuntimeError(
    "org.apache.kafka.common.errors.TimeoutException: no answer\n"
    "Caused by: org.apache.kafka.common.errors.SaslAuthenticationException: Authentication failed"
)
RECREATED = OriginChanged("created again", hint="start anew")


class EndedQuery:
    """A query that has ended: with this error, or with its work done."""

    isActive = False
    lastProgress = None

    def __init__(self, error: Exception | None) -> None:
        self._error = error

    def exception(self) -> Exception | None:
        return self._error


class Starts:
    """Lets each start of a job end with the next of these errors, the last one for ever."""

    def __init__(self, *errors: Exception | None, worker: Outcome = "in_time") -> None:
        self._errors = errors
        self._worker = worker
        self.count = 0
        self.changed: TopicsError | None = None

    def __call__(self) -> Any:
        self.count += 1
        return EndedQuery(self._errors[min(self.count, len(self._errors)) - 1])

    def try_worker(self) -> Any:
        return SimpleNamespace(result=lambda: TrialResult(self._worker, "No module named 'pyspark'"))

    def run(self, *, once: bool = True, polls: int = 1000) -> None:
        """Until the job is done, or fails, or `polls` is over."""
        supervised = SupervisedQuery(
            "logs", self, once=once, topics_changed=lambda: self.changed, try_worker=self.try_worker
        )
        supervised.start()
        for _ in range(polls):
            if supervised.poll():
                return


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervised, "_LONGEST_PAUSE_SECONDS", 0.0)


@pytest.mark.parametrize("error", [LATE, AWAY, KILLED, UNFORKED])
def test_what_passes_starts_the_job_again(error: Exception) -> None:
    starts = Starts(error, error, None)
    starts.run()
    assert starts.count == 3


@pytest.mark.parametrize("error", [LATE, KILLED, AWAY])
def test_what_should_pass_and_does_not_is_given_up(error: Exception) -> None:
    starts = Starts(error)
    with pytest.raises(JobGivenUp):
        starts.run()
    assert starts.count == MAX_FAILURES


@pytest.mark.parametrize("once", [True, False])
def test_a_machine_that_is_too_busy_for_a_worker_is_waited_for_as_long_as_it_takes(once: bool) -> None:
    starts = Starts(*[LATE] * 50, LAYOUT, worker="slow")
    with pytest.raises(JobError, match="3 shards"):
        starts.run(once=once)
    assert starts.count == 51


def test_a_worker_that_cannot_start_fails_the_job_at_once_with_what_it_printed() -> None:
    starts = Starts(LATE, worker="broken")
    with pytest.raises(JobError, match="a Python worker cannot start: No module named 'pyspark'"):
        starts.run()
    assert starts.count == 1


@pytest.mark.parametrize(
    ("program", "outcomes", "cause"),
    [
        ("json", {"in_time", "slow"}, ""),
        ("no_such_module", {"broken"}, "ModuleNotFoundError: No module named 'no_such_module'"),
        ("os; os.kill(os.getpid(), 9)", {"slow"}, ""),
    ],
)
def test_a_trial_tells_a_broken_worker_from_a_slow_one(
    program: str, outcomes: set[Outcome], cause: str
) -> None:
    trial = WorkerTrial(program)
    while (trial_result := trial.result()) is None:
        time.sleep(0.01)
    assert trial_result.outcome in outcomes
    assert trial_result.cause == cause


def test_a_kafka_that_is_away_is_waited_for_as_long_as_it_takes() -> None:
    starts = Starts(*[AWAY] * 50, LAYOUT)
    with pytest.raises(JobError, match="3 shards"):
        starts.run(once=False)
    assert starts.count == 51


@pytest.mark.parametrize("error", [LAYOUT, SASL, RuntimeError("who knows what")])
def test_what_lasts_fails_the_job_at_once(error: Exception) -> None:
    starts = Starts(error)
    with pytest.raises(JobError):
        starts.run()
    assert starts.count == 1


@pytest.mark.parametrize("error", [AWAY, LAYOUT])
def test_topics_created_anew_are_the_reason_that_is_given(error: Exception) -> None:
    starts = Starts(error)
    starts.changed = RECREATED
    with pytest.raises(OriginChanged):
        starts.run()


@pytest.mark.parametrize(
    ("error", "cause", "kind"),
    [
        (LAYOUT, "the checkpoint has 3 shards of 2 blocks, not 16 of 64", "lasting"),
        (SASL, "SaslAuthenticationException: Authentication failed", "lasting"),
        (AWAY, "TimeoutException: Topic t not present in metadata", "kafka"),
        (KILLED, "SparkException: Python worker exited unexpectedly (crashed)", "worker"),
        (
            LATE,
            "[STREAM_FAILED] terminated with exception: Python worker failed to connect back.",
            "late_worker",
        ),
    ],
)
def test_the_innermost_cause_is_one_line(error: Exception, cause: str, kind: str) -> None:
    assert cause_of(error) == cause
    assert failure_of(error).kind == kind


EXPIRED = RuntimeError(
    "Caused by: java.lang.IllegalStateException: Cannot fetch record for offset 4 in 5000 milliseconds. "
    "Some data may have been lost because they are not available in Kafka any more"
)


def test_records_that_expired_before_they_were_read_end_a_job_with_the_page_that_helps() -> None:
    failure = failure_of(EXPIRED)
    assert (failure.kind, failure.passes) == ("lasting", False)
    assert failure.hint is not None and "Records that expired" in failure.hint
    assert "### Records that expired" in (ROOT / "docs" / "operating.md").read_text()


class ReportingQuery:
    """A query that runs, with these reports."""

    isActive = True

    def __init__(self) -> None:
        self.recentProgress: list[dict[str, Any]] = []

    @property
    def lastProgress(self) -> dict[str, Any] | None:
        return self.recentProgress[-1] if self.recentProgress else None

    def report(self, second: int, batch_id: int, rows: int) -> None:
        offsets = {"t": {"0": 10 * second}}
        self.recentProgress.append(
            {
                "timestamp": f"2026-01-01T00:00:{second:02}.000Z",
                "batchId": batch_id,
                "numInputRows": rows,
                "sources": [{"endOffset": offsets, "latestOffset": offsets}],
            }
        )


def test_a_trigger_that_found_nothing_hides_no_batch_of_the_same_number() -> None:
    query = ReportingQuery()
    supervised = SupervisedQuery("logs", lambda: query, once=False, topics_changed=lambda: None)  # type: ignore[arg-type, return-value]
    supervised.start()
    query.report(1, 7, 0)
    assert list(supervised.new_progress()) == []
    query.report(2, 7, 5)
    assert [(progress.batch_id, progress.rows_in) for progress in supervised.new_progress()] == [(7, 5)]
    assert list(supervised.new_progress()) == []
    assert supervised.positions == {("t", 0): 20}


def test_a_failure_of_kafka_that_does_not_pass_ends_the_job() -> None:
    assert failure_of(KafkaFailure("no answer in time")).passes
    assert not failure_of(KafkaFailure("SASL: wrong password", passes=False)).passes


# The end of Spark's JVM is part of a stop, or a reason to start the process again; never a socket error.


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
