"""The rules of the command line at `culm chotki` and `culm sds`: options, addresses, the next command."""

from __future__ import annotations

import asyncio
import io
import json
import re
import socket
import sys
import threading
import warnings
from pathlib import Path

import pytest

from culm_infra.cli.root import run
from culm_infra.cli.sds.join import read_lines
from tests.infra.cli.test_command_line_rules import COMMANDS

OUR_COMMANDS = [words for words in COMMANDS if words[0] in ("chotki", "sds")]


def options_of(*words: str) -> set[str]:
    return {spelled for parameter in COMMANDS[words].parameters for spelled in parameter.opts}


def test_a_name_is_a_global_name_and_a_replica_announces_a_replica_name() -> None:
    named = {words[1] for words in OUR_COMMANDS if "--name" in options_of(*words)}
    assert named == {"new", "edit"}
    announced = {words[1] for words in OUR_COMMANDS if "--replica-name" in options_of(*words)}
    assert announced == {"listen", "connect"}


def test_wait_is_a_flag_and_a_comparison_settles() -> None:
    waiting = [words for words in OUR_COMMANDS if "--wait" in options_of(*words)]
    assert waiting == [("sds", "send")]
    (wait,) = (each for each in COMMANDS["sds", "send"].parameters if "--wait" in each.opts)
    assert wait.is_flag
    assert "--settle" in options_of("chotki", "verify")


def test_an_edge_is_the_connector_of_one_command() -> None:
    with_edge = [words for words in OUR_COMMANDS if "--edge" in options_of(*words)]
    assert with_edge == [("sds", "send")]
    assert "--metrics-of" in options_of("chotki", "status")


@pytest.mark.parametrize(
    "line",
    ["chotki listen http://h:1", "chotki connect h", "chotki dump udp://h:1", "chotki verify tcp://h"],
)
def test_a_wrong_address_of_a_replica_names_the_schemes(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(line.split()) == 2
    printed = _text(capsys.readouterr().err)
    assert "HOST:PORT, tcp://HOST:PORT, tls://HOST:PORT or quic://HOST:PORT" in printed


def test_an_address_of_a_replica_needs_no_scheme(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["chotki", "dump", "127.0.0.1:1"]) == 1
    assert "reading the replica at tcp://127.0.0.1:1" in capsys.readouterr().err


def test_a_count_stops_and_a_tail_begins_with_the_last() -> None:
    tails = {words[1] for words in OUR_COMMANDS if "--tail" in options_of(*words)}
    assert tails == {"join", "tail"}
    counts = {words[1] for words in OUR_COMMANDS if "--count" in options_of(*words)}
    assert counts == {"tail"}


def test_a_participant_keeps_its_data_in_a_directory() -> None:
    kept = {words[1] for words in OUR_COMMANDS if words[0] == "sds" and "--dir" in options_of(*words)}
    assert kept == {"join", "send", "reset-clock"}
    assert not any("--home" in options_of(*words) for words in OUR_COMMANDS)


@pytest.mark.parametrize("line", ["sds send room hello --edge tcp://h:1", "sds join room tcp://h:1"])
def test_a_wrong_address_of_a_connector_names_the_scheme_and_makes_no_folder(
    line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*line.split(), "--dir", str(tmp_path / "new")]) == 2
    assert "HOST:PORT or quic://HOST:PORT" in _text(capsys.readouterr().err)
    assert not (tmp_path / "new").exists()


def test_a_wrong_start_of_a_hosted_participant_makes_no_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = "sds join room 127.0.0.1:1 --hosted --from 0"
    assert run([*line.split(), "--dir", str(tmp_path / "new")]) == 2
    assert "the events of a channel have numbers from 1" in _text(capsys.readouterr().err)
    assert not (tmp_path / "new").exists()


def test_the_first_use_says_where_the_key_is_and_a_send_says_what_it_waits_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # A socket that answers nobody.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        port = silent.getsockname()[1]
        line = ["sds", "send", "room", "hello", "--edge", f"quic://127.0.0.1:{port}", "--timeout", "1.2"]
        assert run([*line, "--dir", str(tmp_path / "new"), "--json"]) == 1
    talk = capsys.readouterr()
    assert str(tmp_path / "new") in talk.err
    assert f"waiting for a connector at 127.0.0.1 port {port}, at most 1.2 s (--timeout)" in _text(talk.err)
    (outcome,) = talk.out.splitlines()
    assert json.loads(outcome)["state"] == "not_sent"


def test_lines_that_are_typed_after_the_end_are_dropped_without_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = asyncio.new_event_loop()
    lines: asyncio.Queue[str | None] = asyncio.Queue()
    loop.close()
    monkeypatch.setattr(sys, "stdin", io.StringIO("late\n"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_lines(lines, loop, threading.Semaphore(1))
    assert lines.empty()


def test_lines_wait_for_capacity_and_end_with_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("one\ntwo\nthree\n"))

    async def read() -> list[str | None]:
        lines: asyncio.Queue[str | None] = asyncio.Queue()
        capacity = threading.Semaphore(2)
        reading = asyncio.create_task(
            asyncio.to_thread(read_lines, lines, asyncio.get_running_loop(), capacity)
        )
        received: list[str | None] = []
        while (line := await lines.get()) is not None:
            assert lines.qsize() <= 2
            received.append(line)
            capacity.release()
        await reading
        return received

    assert asyncio.run(read()) == ["one\n", "two\n", "three\n"]


def _text(printed: str) -> str:
    return " ".join(re.sub(r"[│╭╮╰╯─]", " ", printed).split())
