"""The root of the command line: nouns, errors of one line, exit statuses, log lines, files written whole."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.emoji import Emoji

from culm_infra.cli.kit.new_paths import new_path
from culm_infra.cli.kit.output import safe
from culm_infra.cli.logs.output import writer
from culm_infra.cli.root import NOUNS, run
from culm_infra.errors import InfraError
from tests.support.process.argument_fuzz import commands


@pytest.mark.parametrize("noun", NOUNS)
def test_every_noun_has_a_help(noun: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([noun, "--help"]) == 0
    assert f"culm {noun}" in capsys.readouterr().out


def test_every_command_shows_an_example_of_itself() -> None:
    without = [
        command.words
        for command in commands()
        if " ".join(("culm", *command.words)) not in command.help.partition("Example: ")[2]
    ]
    assert without == []


def test_paragraphs_of_a_help_break_at_the_width_of_the_terminal_alone() -> None:
    broken = {
        command.words: line
        for command in commands()
        for paragraph in command.help.split("\n\n")
        for line in paragraph.split("\n")[1:]
        if not line.startswith(("-", " "))
    }
    assert broken == {}


def test_no_help_holds_a_word_between_colons() -> None:
    """It would be shown as a picture: `did:key:…` has one."""
    texts = {
        command.words: " ".join(
            str(text) for text in [command.help, *(param.help for param in command.parameters)]
        )
        for command in commands()
    }
    assert [words for words, text in texts.items() if Emoji.replace(text) != text] == []


@pytest.mark.parametrize("noun", ["sprout", "peer", "peers", "vv", "blocks", "index"])
def test_an_unknown_noun_is_a_usage_error(noun: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([noun]) == 2
    assert noun in capsys.readouterr().err


def test_an_error_is_a_line_with_its_code_and_a_hint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_config: object) -> None:
        raise InfraError("it broke", hint="mend it")

    monkeypatch.setattr("culm_infra.settings.loading.examine", fail)
    assert run(["settings", "show"]) == 1
    talk = capsys.readouterr().err
    assert "error: it broke (infra)" in talk
    assert "hint: mend it" in talk


def test_an_output_that_the_encoding_lacks_is_not_blamed_on_an_argument(tmp_path: Path) -> None:
    home = ["--dir", str(tmp_path / "peer")]
    assert run(["p2panda", "peer", "init", *home]) == 0
    schema = ["--schema", f"venue_0020{'ab' * 32}"]
    assert run(["p2panda", "peer", "publish", "create", "name=\u2603", *schema, *home]) == 0
    shown = subprocess.run(
        [sys.executable, "-m", "culm_infra", "p2panda", "documents", "list", *home],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        check=False,
    )
    assert shown.returncode == 2
    assert "encoding ascii" in shown.stderr and "UTF-8, such as LC_ALL" in shown.stderr


def test_text_from_outside_is_escaped_and_cut() -> None:
    assert safe("\x1b[2Jred[bold]") == r"�[2Jred\[bold]"
    assert len(safe("x" * 1000)) == 200


EXTRAS = ("pyspark", "pandas", "aioquic", "lmdb", "pyarrow", "cryptography", "numpy", "prometheus_client")


@pytest.mark.parametrize(
    ("program", "heavy"),
    [
        ("from culm_infra.cli.root import run; run(['--help'])", (*EXTRAS, "confluent_kafka")),
        ("from tests.support.process.argument_fuzz import commands; commands()", EXTRAS),
    ],
)
def test_help_opens_without_the_heavy_libraries(program: str, heavy: tuple[str, ...]) -> None:
    check = f"loaded = {set(heavy)} & set(sys.modules); sys.exit(str(loaded) if loaded else 0)"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; {program}; {check}"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("arguments", "phrase", "status"),
    [
        (["topics", "list", "--kafka-option", "acks=1"], "acks cannot be set", 2),
        (["topics", "list", "--kafka-option", "no.such=1"], "no.such", 1),
        (["connector", "run", "--datagram-size", "7"], "--datagram-size: connector.transport.datagram", 2),
        (["connector", "id", "--dir", "/dev/null/here"], "/dev/null", 1),
    ],
)
def test_a_wrong_value_is_one_line_and_no_traceback(
    arguments: list[str],
    phrase: str,
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("CULM_BOOTSTRAP", "127.0.0.1:1")
    assert run(arguments) == status
    talk = capsys.readouterr().err
    assert talk.startswith("error: ")
    assert phrase in talk


_PROGRAM = """
import logging, sys, threading, warnings
from culm_infra.cli.kit.log_lines import set_up
set_up("json")
logging.getLogger("culm_connectors").info("ours", extra={"peer": b"\\x01"})
logging.getLogger("quic").warning("a library's")
warnings.warn("Python's own")
try:
    1 / 0
except ZeroDivisionError:
    logging.getLogger("culm_topics").exception("with a traceback")
thread = threading.Thread(target=lambda: 1 / 0)
thread.start()
thread.join()
raise RuntimeError("nobody caught this")
"""


def test_lines_of_libraries_warnings_and_tracebacks_are_objects() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=60, check=False
    )
    lines: list[dict[str, Any]] = [json.loads(line) for line in ended.stderr.splitlines()]
    assert [line["logger"] for line in lines] == [
        "culm_connectors",
        "quic",
        "py.warnings",
        "culm_topics",
        "culm_infra",
        "culm_infra",
    ]
    assert lines[0]["peer"] == "01"
    for line in lines[3:]:
        assert line["exception"].startswith("Traceback")
    assert "nobody caught this" in lines[-1]["exception"]


def test_an_unfinished_export_of_logs_touches_no_other_file(tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("mine")
    (tmp_path / "logs.jsonl.partial").symlink_to(tmp_path / "outside")
    (tmp_path / "logs.jsonl").write_text("old")
    with writer(tmp_path / "logs.jsonl"):
        assert (tmp_path / "logs.jsonl").read_text() == "old"
    assert (tmp_path / "outside").read_text() == "mine"
    assert (tmp_path / "logs.jsonl.partial").is_symlink()
    assert (tmp_path / "logs.jsonl").read_text() == ""


def test_an_export_of_a_log_to_a_file_that_exists_is_refused_in_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["bamboo", "publish", "a", "--dir", str(tmp_path / "mine")]) == 0
    (tmp_path / "stick").write_text("old")
    assert run(["bamboo", "export", "-o", str(tmp_path / "stick"), "--dir", str(tmp_path / "mine")]) == 1
    stderr = capsys.readouterr().err
    assert "exists already" in stderr and "Errno" not in stderr
    assert (tmp_path / "stick").read_text() == "old"


def test_what_fails_leaves_nothing_and_what_came_meanwhile_stays(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), new_path(tmp_path / "new") as path:
        path.write_text("half")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InfraError), new_path(tmp_path / "new") as path:
        path.write_text("late")
        (tmp_path / "new").write_text("first")
    assert (tmp_path / "new").read_text() == "first"
    assert [file.name for file in tmp_path.iterdir()] == ["new"]


def test_a_directory_has_the_usual_permissions(tmp_path: Path) -> None:
    (tmp_path / "usual").mkdir()
    with new_path(tmp_path / "new") as path:
        path.mkdir()
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "usual").stat().st_mode
