"""One rule for each thing of the command line: suggestions, usage lines, versions, the stack, waiting."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from culm_infra.cli.kit.options import KafkaFlags
from culm_infra.cli.root import run
from culm_infra.stack.stack import Stack, running_stacks
from tests.support.process.argument_fuzz import commands

COMMANDS = {command.words: command for command in commands()}


@pytest.mark.parametrize(
    ("line", "suggestion"),
    [
        ("topic list", "culm topics"),
        ("log tail", "culm logs"),
        ("logs tial", "culm logs tail"),
        ("p2panda peer synch", "culm p2panda peer sync"),
    ],
)
def test_a_misspelled_command_gets_a_suggestion(
    line: str, suggestion: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(line.split()) == 2
    assert f"Did you mean `{suggestion}`?" in _text(capsys.readouterr().err)


def test_an_unknown_command_without_a_neighbour_gets_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["stack", "quux"]) == 2
    assert "Commands: up, down, status, logs." in _text(capsys.readouterr().err)


@pytest.mark.parametrize("line", ["version", "-V", "--version"])
def test_the_version_is_printed(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([line]) == 0
    assert capsys.readouterr().out.startswith("culm ")


def test_help_is_a_command_as_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["help", "logs", "tail"]) == 0
    by_command = capsys.readouterr().out
    assert run(["logs", "tail", "--help"]) == 0
    assert capsys.readouterr().out.strip() == by_command.strip()
    assert run(["help", "logs", "tial"]) == 2
    assert run(["help", "logs", "tail", "more"]) == 2


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_shows_the_usual_forms(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """No type behind a flag, no braces, no brackets in brackets, and no `<str>`."""
    assert run([*words, "--help"]) == 0
    shown = capsys.readouterr().out
    usage = re.search(r"Usage: (.*?)\n *\n", shown, re.DOTALL)
    assert usage is not None
    assert not re.search(r"\{|\[\[|<\w+>", usage[1])
    assert not re.search(r"<(bool|str|int|float|path|list)", shown)


ONE_MEANING = {
    "--name": "A global name, by which it can be found everywhere.",
    "--dir": "The folder of the key and the data",
    "--from": "Where to start",
    "--policy": "Who may read and write what",
    "--mode": "1 read, 2 write, 4 live",
    "--wait": "Wait until it is acknowledged or given up.",
    "--keep": "Leave the stack up",
    "--stack": "The local stack",
    "--config": "The settings file",
    "--json": "Print JSON Lines",
}
"""Beginnings of the help of options that once had several meanings."""


@pytest.mark.parametrize("option", ONE_MEANING)
def test_an_option_has_one_meaning_everywhere(option: str) -> None:
    shown = {
        " ".join(words): parameter.help
        for words, command in COMMANDS.items()
        for parameter in command.parameters
        if option in parameter.opts
    }
    others = {name: text for name, text in shown.items() if not text.startswith(ONE_MEANING[option])}
    assert shown
    assert not others


@pytest.mark.parametrize(("option", "form"), [("--peer", "PEER_ID"), ("--timeout", "SECONDS")])
def test_an_option_takes_the_same_form_everywhere(option: str, form: str) -> None:
    forms = {
        parameter.metavar
        for words, command in COMMANDS.items()
        if words[0] != "demo"
        for parameter in command.parameters
        if option in parameter.opts
    }
    assert forms == {form}


def _has(words: tuple[str, ...], option: str) -> bool:
    return any(option in parameter.opts for parameter in COMMANDS[words].parameters)


@pytest.mark.parametrize("words", [words for words in COMMANDS if _has(words, "--bootstrap")], ids=" ".join)
def test_whatever_uses_kafka_selects_the_stack_and_the_settings_file_alike(words: tuple[str, ...]) -> None:
    assert _has(words, "--stack")
    assert _has(words, "--config")


def test_a_command_names_the_stacks_that_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("CULM_BOOTSTRAP", raising=False)
    monkeypatch.setattr("culm_infra.stack.stack.running_stacks", lambda: ["a"])
    assert run(["logs", "list", "--stack", str(tmp_path)]) == 1
    printed = _text(capsys.readouterr().err)
    assert "is not running, but a is" in printed
    assert "--stack a" in printed


def test_a_name_and_a_directory_select_the_same_stack() -> None:
    assert running_stacks() == []
    named = Stack(name="scratch")
    assert str(named.directory) not in str(named.not_running())
    assert "culm stack up --stack scratch" in str(named.not_running().hint)


def test_a_command_says_what_it_waits_for_and_ends_at_its_timeout(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["topics", "list", "--bootstrap", "127.0.0.1:1", "--timeout", "1.5"]) == 75
    printed = _text(capsys.readouterr().err)
    assert "waiting for Kafka at 127.0.0.1:1, at most 1.5 s (--timeout)" in printed
    assert "Connection refused" in printed


def _text(printed: str) -> str:
    return " ".join(re.sub(r"[│╭╮╰╯─]", " ", printed).split())


def test_the_next_command_is_about_the_same_cluster_and_prefix() -> None:
    flags = KafkaFlags(stack="here", bootstrap="kafka:9092", prefix="my own.")
    assert flags.command("culm topics list") == (
        "culm topics list --stack here --bootstrap kafka:9092 --prefix 'my own.'"
    )
    assert KafkaFlags().command("culm topics list") == "culm topics list"


def test_the_timeout_of_a_command_that_waits_for_records_is_about_kafka_alone() -> None:
    helps = {
        " ".join(command.words): str(parameter.help)
        for command in commands()
        if command.words[-1] in ("watch", "tail")
        for parameter in command.parameters
        if parameter.name == "timeout_s"
    }
    assert {"p2panda documents watch", "logs tail"} <= helps.keys()
    assert all("of Kafka" in text for text in helps.values()), helps
