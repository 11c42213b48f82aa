"""The tables of a report, for a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rich import box
from rich.table import Table


def columns(title: str, left: Sequence[str], right: Sequence[str]) -> Table:
    """A table with a head: words at the left, numbers at the right."""
    table = Table(
        title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True
    )
    for column in left:
        table.add_column(column, no_wrap=True)
    for column in right:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def whole_run() -> Table:
    """The last table of every report, without a head: what was, and what came out."""
    return Table(
        title="The whole run", title_justify="left", box=box.SIMPLE, show_header=False, pad_edge=False
    )


def verdict(
    problems: Collection[str], unreached: Collection[str], *, good: str = "yes", bad: str = "NO"
) -> str:
    """The outcome in a word or two: tells what was not reached from what is wrong."""
    if problems:
        return bad
    return "not reached in time" if unreached else good


def add_findings(whole: Table, problems: Collection[str], unreached: Collection[str]) -> None:
    """A row for each thing that is wrong, or that was not reached."""
    for one in unreached:
        whole.add_row("not reached in time", one)
    for problem in problems:
        whole.add_row("problem", problem)
