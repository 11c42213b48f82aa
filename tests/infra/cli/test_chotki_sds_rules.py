"""The rules of the command line at `culm chotki` and `culm sds`: options, addresses, the next command."""

from __future__ import annotations

import pytest

from culm_infra.cli.root import run
from tests.infra.cli.test_command_line_rules import COMMANDS

OUR_COMMANDS = [words for words in COMMANDS if words[0] in ("chotki", "sds")]


def options_of(*words: str) -> set[str]:
    return {spelled for parameter in COMMANDS[words].params for spelled in parameter.opts}


def test_a_name_is_a_global_name_and_a_replica_announces_a_replica_name() -> None:
    named = {words[1] for words in OUR_COMMANDS if "--name" in options_of(*words)}
    assert named == {"new", "edit"}
    announced = {words[1] for words in OUR_COMMANDS if "--replica-name" in options_of(*words)}
    assert announced == {"listen", "connect"}


def test_wait_is_a_flag_and_a_comparison_settles() -> None:
    waiting = [words for words in OUR_COMMANDS if "--wait" in options_of(*words)]
    assert waiting == [("sds", "send")]
    (wait,) = (each for each in COMMANDS["sds", "send"].params if "--wait" in each.opts)
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
    printed = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert "HOST:PORT (over tcp), tcp://HOST:PORT, tls://HOST:PORT or quic://HOST:PORT" in printed


def test_an_address_of_a_replica_needs_no_scheme(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["chotki", "dump", "127.0.0.1:1"]) == 1
    assert "reading the replica at tcp://127.0.0.1:1" in capsys.readouterr().err
