"""A console that stays beside a stack: one for a directory, with a private record, until the stack stops."""

from __future__ import annotations

from pathlib import Path

import httpx

from culm_infra.cli.root import run
from culm_infra.console.beside import running_beside, start_beside, stop_beside
from culm_infra.demo.kit.processes import environment
from tests.support.console.served import NO_KAFKA


def test_one_console_stays_beside_a_stack_until_it_is_stopped(tmp_path: Path) -> None:
    try:
        console = start_beside(tmp_path, environment(NO_KAFKA), [], tmp_path / "console.log", 120.0)
        assert console is not None, (tmp_path / "console.log").read_text()
        assert running_beside(tmp_path) == console
        assert start_beside(tmp_path, {}, [], tmp_path / "other.log") == console
        with httpx.Client(follow_redirects=True) as browser:
            assert browser.get(console.url).status_code == 200
            assert browser.get(httpx.URL(console.url).join("/api/overview")).json()["prefix"] == "culm."
        assert (tmp_path / "console.json").stat().st_mode & 0o777 == 0o600
        assert console.url.partition("token=")[2] not in (tmp_path / "console.log").read_text()
        assert run(["stack", "down", "--stack", f"{tmp_path}/"]) == 0
        assert not console.process.is_running()
        assert running_beside(tmp_path) is None
    finally:
        stop_beside(tmp_path)


def test_a_console_that_cannot_start_leaves_its_reason_in_the_log(tmp_path: Path) -> None:
    log = tmp_path / "console.log"
    assert start_beside(tmp_path, environment(NO_KAFKA), ["nonsense"], log, 120.0) is None
    assert "'nonsense' is not a target" in log.read_text()
    assert not (tmp_path / "console.json").exists()


def test_a_damaged_record_is_no_console(tmp_path: Path) -> None:
    for text in ("", "[]", "{}", '{"pid": "x", "started": 1, "url": 2}', '{"pid": null}'):
        (tmp_path / "console.json").write_text(text)
        assert running_beside(tmp_path) is None
