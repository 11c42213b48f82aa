"""Tables of commands at the width of a terminal: nothing is cut, whatever the columns hold."""

from __future__ import annotations

import json

import pytest
from rich.console import Console

from culm_infra.cli.kit import output
from culm_infra.cli.kit.output import Results
from culm_infra.columns import of

COLUMNS = ("channel", "profile", "log", "waiting", "missing", "lost", "outgoing", "participants", "ahead")
ROW = ("general", "spec", 11_366, 12_345, 12_345, 12_345, 12_345, 1_000, "1234 s")


@pytest.fixture(autouse=True)
def _narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "out", Console(highlight=False, soft_wrap=True, width=80))


def test_a_table_that_fits_is_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_table(None, COLUMNS[:4], [ROW[:4]])
    shown = capsys.readouterr().out.splitlines()
    assert any(all(column in line for column in COLUMNS[:4]) for line in shown)


def test_a_row_that_does_not_fit_is_a_list_of_its_cells(capsys: pytest.CaptureFixture[str]) -> None:
    hash_text = "ab" * 32
    output.print_table("all", (*COLUMNS, "id"), [(*ROW, hash_text), (*ROW, "[red]x")])
    shown = capsys.readouterr().out
    lines = [line.split() for line in shown.splitlines()]
    assert lines[0] == ["all"]
    for name, cell in zip((*COLUMNS, "id"), (*ROW, hash_text), strict=True):
        assert [name, *str(cell).split()] in lines
    assert "[red]x" in shown, "a peer's text is no markup"


def test_a_key_is_no_emoji(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    output.print_table(None, ("key",), [("did:key:z6Mk",)])
    output.out.print("did:key:z6Mk")
    output.say("did:key:z6Mk")
    shown = capsys.readouterr()
    assert (shown.out.count("did:key:z6Mk"), shown.err.count("did:key:z6Mk")) == (2, 1)


def test_rows_are_described_once_for_people_and_for_programs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    columns = {
        "space": "space",
        "heads": "heads",
        "tip": of("tip", str.upper),
        "both": lambda row: row["more"] * 2,
    }
    row = {"space": b"\1\2", "heads": ["a", "b"], "tip": None, "more": 21}
    Results().rows([row], columns, title="all")
    shown = capsys.readouterr().out
    assert [text for text in ("all", "0102", "a, b", " - ", "42") if text not in shown] == []
    Results(json=True).rows([row], columns, title="all")
    assert json.loads(capsys.readouterr().out) == {**row, "space": "0102"}
