"""`culm connector status` and `culm job status`: what runs here, and exit status 3 if nothing does."""

from __future__ import annotations

import json
import os
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from culm_infra.cli.root import run
from culm_infra.cli.status.text import ago, duration
from culm_infra.running import job_socket, socket_directory
from culm_infra.settings import load
from culm_streaming.metrics import JobHealth
from culm_streaming.progress import BatchProgress
from culm_streaming.status import JobStatus
from culm_streaming.supervision.failures import Failure
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.process_status import ProcessStatus
from culm_topics.status_socket import read_status, status_socket

KAFKA = KafkaSettings(bootstrap="127.0.0.1:9092", prefix="culm.")
HOSTILE = "[bold]x[/]\x1b[31m"


@pytest.fixture(autouse=True)
def _stack(no_settings_from_outside: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CULM_STACK__DIRECTORY", str(tmp_path / "stack"))


def connector(**changes: Any) -> dict[str, Any]:
    """The document of a connector with a peer, a lag, and a warning that a peer has caused."""
    protocol = {
        "ready": True,
        "reasons": [],
        "doors": {"p2panda/1": "127.0.0.1:4455"},
        "connections": 52,
        "connections_total": 60,
        "refused": {},
        "closed": {},
        "peers": [{"peer": "ab" * 32, "address": "10.0.0.7:1000"}, {"peer": HOSTILE, "address": None}],
        "bytes_in": 1,
        "bytes_out": 2,
        "staged_records": 3,
        "rejected": {"bamboo.signature": 4},
        "lag": {"culm.logs": 12, "culm.entries": 0},
    }
    fields = {
        "directory": "/srv/edge",
        "peer_id": "cd" * 32,
        "metrics_port": 9100,
        "last_progress_ms": None,
        "in_flight_records": 5,
        "protocols": {"p2panda": protocol, "sds": protocol | {"peers": [], "connections": 0, "lag": None}},
    }
    document = ProcessStatus("connector", KAFKA).document("running", [], **fields)
    warning = {"time_ms": 0, "level": "warning", "message": f"closing the connection of {HOSTILE}"}
    return document | {"warnings": [warning]} | changes


def job_status(which: str = "all", *jobs: str) -> JobStatus:
    fields = {"which": which, "jobs": list(jobs or ("logs", "blocks")), "master": "local[2]"}
    fields |= {"checkpoints": "/srv/checkpoints", "spark_log": "/srv/spark.log"}
    health = JobHealth()
    health.set_reasons()
    return JobStatus(ProcessStatus("job", KAFKA), health, fields)


def test_where_no_connector_runs_is_said_with_the_way_to_start_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for flags in ([], ["--json"]):
        assert run(["connector", "status", "--dir", str(tmp_path / "edge"), *flags]) == 3
        shown = capsys.readouterr()
        assert shown.out == ""
        assert str(tmp_path / "edge") in shown.err and "culm connector run" in shown.err


def test_a_connector_is_shown_with_its_doors_peers_lag_progress_and_warnings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with status_socket(tmp_path / "status.sock", connector):
        assert run(["connector", "status", "--dir", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    for part in (
        f"connector {'cd' * 32} is ready",
        "127.0.0.1:9092, prefix culm.",
        "last progress    none yet",
        "door 127.0.0.1:4455 (p2panda/1)",
        f"peer {'ab' * 32} 10.0.0.7:1000",
        "52 connected, 60 since the start · lag 12 (culm.logs 12) · waiting for Kafka: 3 records",
        "3 records · 4 rejected",
        "and 50 more",
        "lag unknown",
        "5 records that Kafka has not acknowledged",
    ):
        assert part in shown
    assert "\x1b" not in shown and shown.count("[bold]x[/]") == 2, "text of peers is escaped"


def test_a_connector_that_is_not_ready_is_shown_with_the_reasons_and_status_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = connector(ready=False, reasons=["reading the logs", "Kafka has not answered for 9 s"])
    with status_socket(tmp_path / "status.sock", lambda: document):
        assert run(["connector", "status", "--dir", str(tmp_path)]) == 3
        shown = capsys.readouterr().out
        assert "is not ready" in shown and "Kafka has not answered for 9 s" in shown
        assert run(["connector", "status", "--dir", str(tmp_path), "--json"]) == 3
        assert json.loads(capsys.readouterr().out) == document


def test_a_draining_connector_is_shown_with_its_step_and_the_connections_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    drain = {"signal": "SIGUSR1", "step": "ending", "began_ms": int(time.time() * 1000), "connections": 7}
    document = connector(state="draining", ready=False, reasons=["draining"], drain=drain)
    with status_socket(tmp_path / "status.sock", lambda: document):
        assert run(["connector", "status", "--dir", str(tmp_path)]) == 3
    shown = capsys.readouterr().out
    assert "is draining" in shown
    assert "ends its connections, 7 connections left" in shown


def test_an_answer_of_another_version_is_an_error_with_a_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with status_socket(tmp_path / "status.sock", lambda: {"format": 2}):
        assert run(["connector", "status", "--dir", str(tmp_path)]) == 1
    assert "the same version of culm" in capsys.readouterr().err


def test_watch_shows_it_again_until_interrupted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            raise KeyboardInterrupt

    with status_socket(tmp_path / "status.sock", connector):
        monkeypatch.setattr("culm_infra.cli.status.watch.time.sleep", sleep)
        assert run(["connector", "status", "--dir", str(tmp_path), "--json", "--watch", "7"]) == 130
    assert pauses == [7.0] * 3
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_where_no_job_runs_is_said_with_the_way_to_start_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["job", "status", "sds", "--json"]) == 3
    shown = capsys.readouterr()
    assert shown.out == ""
    assert str(tmp_path / "stack" / "run") in shown.err and "culm job run sds" in shown.err
    assert run(["job", "status", "tide"]) == 2


def test_jobs_are_shown_with_rates_lag_progress_and_failures(capsys: pytest.CaptureFixture[str]) -> None:
    status = job_status()
    status.state = "running"
    for job in ("logs", "blocks"):
        status.add(job, f"/srv/checkpoints/{job}")
        status.set_state(job, "running")
    status.record(BatchProgress("logs", 7, 600, 600, 250, {}, 10, 1_000, rejected=2))
    status.set_lag("logs", {("culm.entries", 0): 3, ("culm.entries", 1): 4}, is_stalled=False)
    status.set_lag("blocks", {("culm.logs", 0): 9}, is_stalled=True)
    status.add_failure("blocks", Failure("kafka", f"no answer {HOSTILE}"))
    with job_socket(load(), "all", status.document):
        assert run(["job", "status"]) == 0
    shown = capsys.readouterr().out
    for part in (
        "jobs all: ready",
        "  logs             running · lag 7 (culm.entries 7) · 600 records in 1 batch · 10.0 records/s",
        "2 rejected",
        "micro-batch 7, 0 s ago: 600 records in 250 ms",
        "  blocks           stalled · lag 9 (culm.logs 9)",
        "1 failure, the latest 0 s ago: no answer [bold]x[/]",
    ):
        assert part in shown
    assert "\x1b" not in shown


def test_processes_of_several_groups_are_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    settings = load()
    with ExitStack() as stack:
        stack.enter_context(job_socket(settings, "all", job_status().document))
        stack.enter_context(job_socket(settings, "sds", job_status("sds", "sds", "sds-index").document))
        assert run(["job", "status", "--json"]) == 0
        rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [row["which"] for row in rows] == ["all", "sds"]
        for which, status in (("sds-index", 0), ("blocks", 0), ("dag", 3)):
            assert run(["job", "status", which, "--json"]) == status
        rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [row["which"] for row in rows] == ["sds", "all"]


def test_a_second_process_with_the_same_jobs_has_a_socket_of_its_own() -> None:
    settings = load()
    with (
        job_socket(settings, "all", job_status().document),
        job_socket(settings, "all", job_status("all", "logs").document),
    ):
        names = sorted(path.name for path in socket_directory(settings).iterdir())
        assert names == [f"job-culm-all-{os.getpid()}.sock", "job-culm-all.sock"]
        assert read_status(socket_directory(settings) / names[0])["jobs"] == ["logs"]
    assert list(socket_directory(settings).iterdir()) == []


def test_a_time_is_shown_in_two_units() -> None:
    assert [duration(seconds) for seconds in (-1, 0.9, 59, 61, 3_600, 3_601, 90_061)] == [
        *("0 s", "0 s", "59 s", "1 min 1 s", "1 h", "1 h 1 s", "1 d 1 h"),
    ]
    assert ago(int((time.time() - 125) * 1000)) == "2 min 5 s ago"


def test_a_file_in_the_place_of_the_socket_does_not_keep_jobs_from_running(
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = load()
    with job_socket(settings, "all", job_status().document):
        (socket,) = socket_directory(settings).iterdir()
    socket.touch()
    with job_socket(settings, "all", job_status().document) as is_served:
        assert not is_served
    assert "is not a socket" in caplog.text
