"""What commands print: data on standard output, talk on standard error, and the text of peers escaped.

`Results` has each result once, for people as text or as tables, and for programs with ``--json``.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

from culm_infra.columns import Columns, Row, cells

if TYPE_CHECKING:
    from culm_topics.readers.batch import PassedOver

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_DEGRADED = 3
EXIT_TRY_AGAIN = 75
"""What should pass by itself did not in time: a supervisor starts the command again."""

NOTHING_REPLICATED = (
    "nothing is in `logs` yet: `culm job run` writes it, and Spark takes up to a minute to start"
)
"""Why `logs` may be empty after a peer has synchronised: entries pass through the jobs to get there."""

_TEXT_LIMIT = 200
_UNBOUNDED = 10_000
"""A width in which every table fits, so that what it needs can be measured."""
# An error's cause is shown whole; it names things that others chose, so it has an end all the same.
_ERROR_LIMIT = 2_000

_logger = logging.getLogger(__name__)
_json_lines = False

# Without emoji: a did:key holds the name of one.
out = Console(highlight=False, soft_wrap=True, emoji=False)
err = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)


def emit_json(value: Any) -> None:
    """One JSON document on one line of standard output; bytes become lower-case hex."""
    sys.stdout.write(json.dumps(value, default=_plain, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def _plain(value: Any) -> Any:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).hex()
    return str(value)


def safe(text: object, limit: int = _TEXT_LIMIT) -> str:
    """Text that somebody else chose, fit for a terminal: no control characters, no markup, cut at `limit`."""
    cleaned = "".join(character if character.isprintable() else "�" for character in str(text))
    if len(cleaned) > limit:
        cleaned = cleaned[: limit - 1] + "…"
    return escape(cleaned)


def at(time_ms: int) -> str:
    """A time in UTC, to the second."""
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms"


def print_table(title: str | None, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table on standard output; cells are escaped.

    Where the terminal is too narrow for the longest words of all columns beside each other, every row becomes
    a list of its cells, one a line: nothing is cut, and an id can still be copied.
    """
    cells = [[safe(cell) for cell in row] for row in rows]
    table = Table(title=title, title_justify="left", header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in cells:
        table.add_row(*row)
    if Measurement.get(out, out.options.update_width(_UNBOUNDED), table).minimum <= out.width:
        out.print(table)
    else:
        out.print(_as_lists(title, columns, cells))


def _as_lists(title: str | None, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    width = max(len(column) for column in columns)
    lists = [
        "\n".join(f"[bold]{name:{width}}[/]  {cell}" for name, cell in zip(columns, row, strict=True))
        for row in rows
    ]
    return "\n\n".join(lists if title is None else [title, *lists])


def say(message: str) -> None:
    """A line of talk on standard error (rich markup allowed: escape what is not ours)."""
    if _json_lines:
        _logger.info(Text.from_markup(message).plain)
    else:
        err.print(message)


def use_json_lines(*, are_used: bool) -> None:
    """Whether standard error is for programs from here on: talk and errors then become log lines."""
    global _json_lines  # noqa: PLW0603
    _json_lines = are_used


def exit_status(error: BaseException) -> int:
    """The exit status of a command that an error ended: whether to start it again, or to look at it first."""
    return EXIT_TRY_AGAIN if getattr(error, "passes", False) else EXIT_FAILED


def print_error(error: BaseException, *, hint: str | None = None) -> None:
    """One line that says what went wrong with its stable code, and one that says what to do."""
    code = getattr(error, "code", type(error).__name__)
    hint = hint or getattr(error, "hint", None)
    text = str(error)
    if isinstance(error, OSError) and isinstance(error.filename, str | bytes) and error.strerror:
        # Without the number and the quotes that Python puts around it.
        text = f"{os.fsdecode(error.filename)}: {error.strerror}"
    if _json_lines:
        _logger.error(text, extra={"code": code, **({"hint": hint} if hint else {})})
        return
    err.print(f"[bold red]error[/]: {safe(text, _ERROR_LIMIT) or type(error).__name__} [dim]({code})[/]")
    if hint:
        err.print(f"[bold]hint[/]: {escape(hint)}")


def progress() -> Progress:
    """A progress display on standard error; silent where standard error is no terminal."""
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=err,
        disable=not err.is_terminal,
        transient=True,
    )


@contextmanager
def counting(what: str, total: float | None = None, *, visible: bool = True) -> Iterator[Callable[..., None]]:
    """A progress display of one line; yields what sets `completed`, `advance`, `total` or `description`."""
    with progress() as display:
        yield partial(display.update, display.add_task(what, total=total, visible=visible))


def show_parts(display: Progress) -> Callable[[str, int, int], None]:
    """Return what shows each part of a long work, by its name, on a line of its own: done, of how much."""
    tasks: dict[str, TaskID] = {}

    def show(what: str, done: int, total: int) -> None:
        if what not in tasks:
            tasks[what] = display.add_task(what)
        display.update(tasks[what], completed=done, total=total)

    return show


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """Where the results of a command go."""

    json: Annotated[
        bool, typer.Option("--json", help="Print JSON for programs instead of text for people.")
    ] = False

    def one(self, row: Row, text: str) -> None:
        """One result, and its words."""
        if self.json:
            emit_json(row)
        else:
            out.print(text, markup=False)

    def event(self, row: Row, words: str) -> None:
        """Something that happened meanwhile: for people on standard error (rich markup allowed)."""
        if self.json:
            emit_json(row)
        else:
            say(words)

    def rows(self, rows: Iterable[Row], columns: Columns, *, title: str | None = None) -> None:
        """A list: an object on a line each, or a table."""
        if self.json:
            for row in rows:
                emit_json(row)
        else:
            table(title, columns, rows)

    def say(self, message: str) -> None:
        """A remark on what people see, on standard error (rich markup allowed)."""
        if not self.json:
            say(message)

    def passed_over(self, passed_over: PassedOver) -> None:
        """Report the records of a topic that were passed over: with `--json` one more object, a `problem`."""
        if not passed_over.records:
            return
        if self.json:
            emit_json(
                {
                    "problem": "topics.record",
                    "topic": passed_over.topic,
                    "records": passed_over.records,
                    "first": passed_over.first,
                }
            )
            return
        few = "; ".join(map(safe, passed_over.first))
        say(f"[yellow]{passed_over.records} records of `{passed_over.topic}` were passed over[/]: {few}")


def table(title: str | None, columns: Columns, rows: Iterable[Row]) -> None:
    """Rows as a table for people."""
    print_table(title, tuple(columns), (list(cells(columns, row)) for row in rows))
