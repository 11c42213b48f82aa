"""What a stack keeps on disk: its record, as earlier programs wrote it, and its log, which is followed."""

from __future__ import annotations

from pathlib import Path

from culm_infra.stack import record
from culm_infra.stack.log_file import follow, last_lines
from tests.support.freeze import frozen, stores


def test_last_lines_are_whole_and_clean(tmp_path: Path) -> None:
    log = tmp_path / "broker.log"
    assert last_lines(log, 5) == []
    log.write_bytes(b"one\ntwo\x1b[2J\nthree\nfou")
    assert last_lines(log, 2) == ["two\N{REPLACEMENT CHARACTER}[2J", "three"]
    assert last_lines(log, 0) == []


def test_a_rolled_log_is_followed_by_its_successor(tmp_path: Path) -> None:
    log = tmp_path / "broker.log"
    log.write_text("old\none\n")
    lines = follow(log, 1)
    assert next(lines) == "one"
    with log.open("a") as file:
        file.write("tw")
        file.flush()
        file.write("o\n")
    assert next(lines) == "two"
    log.rename(tmp_path / "broker.log.1")
    log.write_text("three\nfour\n")
    assert [next(lines), next(lines)] == ["three", "four"]


def test_a_kept_stack_is_known_by_its_record(tmp_path: Path) -> None:
    assert record.read(frozen.unpack("stack", tmp_path) / "stack.json") == stores.STACK
