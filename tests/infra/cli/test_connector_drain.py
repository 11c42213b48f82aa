"""`culm connector drain`: the signal reaches the connector alone, each obstacle has one clear sentence."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from culm_infra import running_process as running_process_module
from culm_infra.cli.root import run
from culm_topics.status_socket import CONNECTOR_SOCKET, StatusSocketError

PROTOCOL = {"staged_records": 0, "connections": 3}
DRAIN = {
    "signal": "SIGUSR1",
    "step": None,
    "began_ms": None,
    "connections": 3,
    "unready_s": 0.0,
    "spread_s": 0.0,
}
DOCUMENT: dict[str, Any] = {
    "format": 1,
    "kind": "connector",
    "version": "0.1.0",
    "peer_id": "ab" * 32,
    "in_flight_records": 0,
    "protocols": {"p2panda": PROTOCOL},
    "drain": DRAIN,
}
PROGRAM = """
import json, signal, sys, threading, time
from pathlib import Path
from culm_topics.status_socket import status_socket
document, hangs = json.loads(sys.argv[2]), sys.argv[3] == "hangs"
asked = threading.Event()
def on_signal(*_):
    document["drain"] |= {"step": "ending"}
    asked.set()
signal.signal(signal.SIGUSR1, on_signal)
with status_socket(Path(sys.argv[1]), lambda: document):
    print("serving", flush=True)
    while not asked.wait(0.05) or hangs:
        pass
time.sleep(float(sys.argv[4]))
"""
"""Stands for a connector: serves a document, and ends, or does not, when it is asked to drain."""


@pytest.fixture(autouse=True)
def _settings(no_settings_from_outside: None) -> None:
    """Of this test alone."""


@contextmanager
def serving(
    folder: Path, document: dict[str, Any], *, hangs: bool = False, end_s: float = 0.0
) -> Iterator[subprocess.Popen[str]]:
    arguments = (
        str(folder / CONNECTOR_SOCKET),
        json.dumps(document),
        "hangs" if hangs else "ends",
        str(end_s),
    )
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, *arguments], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None and process.stdout.readline() == "serving\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def drain(folder: Path, *more: str) -> int:
    return run(["connector", "drain", "--dir", str(folder), *more])


def words(printed: str) -> str:
    return " ".join(printed.split())


def test_a_connector_is_drained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(tmp_path, DOCUMENT) as process:
        assert drain(tmp_path) == 0
        assert process.wait(10) == 0
    captured = capsys.readouterr()
    assert words(captured.out).startswith(f"connector {'ab' * 32} has drained: 3 connections ended")
    assert f"next: culm connector run --dir {tmp_path}" in words(captured.err)


def test_a_connector_that_has_closed_its_socket_may_take_a_while_to_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(tmp_path, DOCUMENT, end_s=1.5) as process:
        assert drain(tmp_path) == 0
        assert process.wait(10) == 0
    assert "has drained" in words(capsys.readouterr().out)


def test_the_result_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(tmp_path, DOCUMENT) as process:
        assert drain(tmp_path, "--json") == 0
    row = json.loads(capsys.readouterr().out)
    assert (row["pid"], row["connections"], row["peer_id"]) == (process.pid, 3, "ab" * 32)


def test_a_connector_that_makes_no_progress_is_named_with_what_it_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(tmp_path, DOCUMENT, hangs=True) as process:
        assert drain(tmp_path, "--timeout", "0.5") == 75
        assert process.poll() is None
    printed = words(capsys.readouterr().err)
    assert "ending 3 connections over 0 s" in printed
    assert f"kill -TERM {process.pid}" in printed


def test_nothing_runs_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert drain(tmp_path) == 1
    assert f"no connector runs in {tmp_path}" in words(capsys.readouterr().err)


def test_a_killed_connector_has_left_its_socket(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(tmp_path, DOCUMENT) as process:
        process.kill()
        process.wait()
    assert (tmp_path / CONNECTOR_SOCKET).exists()
    assert drain(tmp_path) == 1
    assert "no connector runs in" in words(capsys.readouterr().err)


@pytest.mark.parametrize("kind", ["older", "embedded", "job"])
def test_a_process_that_would_die_of_the_signal_does_not_receive_it(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changes: dict[str, dict[str, Any]] = {
        "older": {"version": "0.0.9"},
        "embedded": {"drain": DRAIN | {"signal": None}},
        "job": {"kind": "job"},
    }
    document = DOCUMENT | changes[kind]
    if kind == "older":
        del document["drain"]
    with serving(tmp_path, document) as process:
        assert drain(tmp_path) == 1
        assert process.poll() is None
    printed = words(capsys.readouterr().err)
    assert "handles no signal" in printed if kind == "embedded" else f"kill -TERM {process.pid}" in printed


def test_a_connector_of_another_user(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path) -> int:
        raise StatusSocketError(f"{path}: Permission denied") from PermissionError(13, "Permission denied")

    monkeypatch.setattr(running_process_module, "serving_process", refused)
    assert drain(tmp_path) == 1
    assert "belongs to another user" in words(capsys.readouterr().err)


def test_a_connector_in_another_container(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running_process_module, "serving_process", lambda path: 0)
    assert drain(tmp_path) == 1
    assert "runs in another container" in words(capsys.readouterr().err)
