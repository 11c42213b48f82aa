"""Jobs and connectors end with 75 for what passes by itself: a supervisor starts them again; else with 1."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from culm_connectors.errors import DirectoryInUse
from culm_connectors.local_store.folder_lock import FolderLock
from culm_infra.cli import job
from culm_infra.cli.kit import log_lines
from culm_infra.cli.root import run
from culm_streaming.errors import JobError, JobGivenUp
from culm_topics.errors import KafkaFailure, OriginChanged
from culm_topics.kafka import admin, origin
from culm_topics.status_socket import FORMAT, status_socket

PASSES = KafkaFailure("no answer in time", hint="is Kafka up?")
LASTS = KafkaFailure("SASL: wrong password", passes=False)


def raising(error: Exception) -> Callable[..., Any]:
    def fail(*_arguments: Any, **_named: Any) -> Any:
        raise error

    return fail


@pytest.fixture(autouse=True)
def own_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CULM_STACK__DIRECTORY", str(tmp_path))
    monkeypatch.setattr(log_lines, "set_up", lambda _format: None)  # this process's logging stays as it is


def job_run(bootstrap: str = "127.0.0.1:1") -> int:
    return run(["job", "run", "--bootstrap", bootstrap])


@pytest.mark.parametrize(("error", "status"), [(PASSES, 75), (LASTS, 1)])
def test_kafka_that_fails_before_spark_starts(
    error: Exception, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(admin, "list_topics", raising(error))
    assert job_run() == status
    stderr = capsys.readouterr().err
    assert str(error) in stderr
    assert "Spark's log" not in stderr, "there is none yet"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (PASSES, 75),
        (LASTS, 1),
        (JobGivenUp("again"), 75),
        (JobError("failed"), 1),
        (OriginChanged("o"), 1),
    ],
)
def test_what_ends_a_run(
    error: Exception, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(job, "_check_topics", lambda *_: None)
    monkeypatch.setattr(job, "_run", raising(error))
    assert job_run() == status
    assert "Spark's log" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("jobs", "checkpoints", "is_refused"),
    [(["logs", "blocks"], "/srv/here", True), (["logs"], "/srv/there", False), (["sds"], "/srv/here", False)],
)
def test_a_job_is_refused_beside_a_process_that_runs_it_with_the_same_checkpoint(
    jobs: list[str],
    checkpoints: str,
    is_refused: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    started: list[str] = []
    monkeypatch.setattr(job, "_check_topics", lambda *_: None)
    monkeypatch.setattr(job, "_run_in_spark", lambda _settings, which, *_: started.append(which))
    other = {"format": FORMAT, "pid": os.getpid() + 1, "jobs": jobs, "checkpoints": checkpoints}
    with status_socket(tmp_path / "run" / "job-culm-other.sock", lambda: other):
        arguments = ["job", "run", "logs", "documents", "--bootstrap", "127.0.0.1:1"]
        assert run([*arguments, "--checkpoints", "/srv/here"]) == is_refused
    assert started == ([] if is_refused else ["logs+documents"])
    if is_refused:
        shown = capsys.readouterr().err
        assert "already runs logs" in shown and "culm job status" in shown


def test_a_kafka_that_is_away_at_the_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    describe = admin.describe
    monkeypatch.setattr(admin, "describe", lambda client, names, _timeout_s: describe(client, names, 0.5))
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        assert job_run(f"127.0.0.1:{closed.getsockname()[1]}") == 75
    assert "Connection refused" in capsys.readouterr().err


@pytest.mark.parametrize(("error", "status"), [(PASSES, 75), (LASTS, 1)])
def test_a_connector_that_kafka_fails_at_its_start(
    error: Exception, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(origin, "ask_origin", raising(error))
    arguments = ["--listen", "none", "--dir", str(tmp_path), "--bootstrap", "127.0.0.1:1"]
    assert run(["connector", "run", *arguments]) == status


def test_a_second_connector_over_one_directory_is_refused_before_it_reads_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(origin, "ask_origin", raising(AssertionError("Kafka was asked")))
    lock = FolderLock(tmp_path, lambda: DirectoryInUse("here"), file_name="connector.lock")
    arguments = ["--listen", "none", "--dir", str(tmp_path), "--bootstrap", "127.0.0.1:1"]
    assert run(["connector", "run", *arguments]) == 1
    assert "connector.in_use" in capsys.readouterr().err
    lock.release()
