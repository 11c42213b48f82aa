"""The root of the command line: every noun opens, errors are one line, exit statuses are the stated ones."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from rich.emoji import Emoji
from typer.main import get_command

from culm_infra.cli.output import safe
from culm_infra.cli.root import NOUNS, app, run
from culm_infra.errors import InfraError


@pytest.mark.parametrize("noun", NOUNS)
def test_every_noun_has_a_help(noun: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([noun, "--help"]) == 0
    assert f"culm {noun}" in capsys.readouterr().out


def commands(group: Any, path: tuple[str, ...] = ("culm",)) -> Iterator[tuple[str, Any]]:
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        if hasattr(command, "list_commands"):
            yield from commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


def examples(command: Any) -> str:
    return str(command.help).partition("Example: ")[2]


def test_every_command_shows_an_example_of_itself() -> None:
    assert [name for name, command in commands(get_command(app)) if name not in examples(command)] == []


def test_no_help_holds_a_word_between_colons() -> None:
    """It would be shown as a picture: `did:key:…` has one."""
    texts = {
        name: " ".join(str(text) for text in [command.help, *(one.help for one in command.params)])
        for name, command in commands(get_command(app))
    }
    assert [name for name, text in texts.items() if Emoji.replace(text) != text] == []


@pytest.mark.parametrize("noun", ["sprout", "peer", "peers", "vv", "blocks", "index"])
def test_an_unknown_noun_is_a_usage_error(noun: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([noun]) == 2
    assert noun in capsys.readouterr().err


def test_an_error_is_a_line_with_its_code_and_a_hint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(**_flags: object) -> None:
        raise InfraError("it broke", hint="mend it")

    monkeypatch.setattr("culm_infra.settings.load", fail)
    assert run(["settings", "show"]) == 1
    talk = capsys.readouterr().err
    assert "error: it broke (infra)" in talk
    assert "hint: mend it" in talk


def test_text_from_outside_is_escaped_and_cut() -> None:
    assert safe("\x1b[2Jred[bold]") == r"�[2Jred\[bold]"
    assert len(safe("x" * 1000)) == 200


EXTRAS = ("pyspark", "pandas", "aioquic", "lmdb", "pyarrow", "cryptography", "numpy", "prometheus_client")


@pytest.mark.parametrize(
    ("program", "heavy"),
    [
        ("from culm_infra.cli.root import run; run(['--help'])", (*EXTRAS, "confluent_kafka")),
        ("from tests.support.command_tree import commands; commands()", EXTRAS),
    ],
)
def test_help_opens_without_the_heavy_libraries(program: str, heavy: tuple[str, ...]) -> None:
    found = f"found = {set(heavy)} & set(sys.modules); sys.exit(str(found) if found else 0)"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; {program}; {found}"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["topics", "list", "--kafka-option", "acks=1"], "acks cannot be set"),
        (["topics", "list", "--kafka-option", "no.such=1"], "no.such"),
        (["connector", "run", "--datagram-size", "7"], "datagram"),
        (["connector", "id", "--dir", "/dev/null/here"], "/dev/null"),
    ],
)
def test_a_wrong_value_is_one_line_and_no_traceback(
    arguments: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("CULM_BOOTSTRAP", "127.0.0.1:1")
    assert run(arguments) == 1
    talk = capsys.readouterr().err
    assert talk.startswith("error: ")
    assert said in talk
