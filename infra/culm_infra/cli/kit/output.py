"""Output of commands: data on standard output, messages on standard error, text of peers escaped.

`Results` prints each result for people as text or tables, and for programs with ``--json``.
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
from culm_infra.errors import SettingsError

if TYPE_CHECKING:
    from culm_topics.readers.batch import PassedOver

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_DEGRADED = 3
EXIT_TRY_AGAIN = 75
"""A temporary failure lasted too long: a supervisor starts the command again."""

NOTHING_REPLICATED = (
    "nothing is in `logs` yet: `culm job run` writes it, and Spark takes up to a minute to start; "
    "`culm rejected tail` lists what was refused"
)
"""Explains an empty `logs` after a peer has synchronised: entries reach it through the jobs."""

_TEXT_LIMIT = 200
_UNBOUNDED = 10_000
"""A width in which every table fits, so that the width it needs can be measured."""
# The cause of an error is shown in full, up to this limit, since it contains names that others chose.
_ERROR_LIMIT = 2_000

_logger = logging.getLogger(__name__)
_json_lines = False

# Emoji are off because a did:key may contain an emoji's name.
out = Console(highlight=False, soft_wrap=True, emoji=False)
err = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)


def emit_json(value: Any) -> None:
    """Write one JSON document as one line to standard output; bytes become lower-case hex."""
    sys.stdout.write(json.dumps(value, default=_plain, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def _plain(value: Any) -> Any:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).hex()
    return str(value)


def safe(text: object, limit: int = _TEXT_LIMIT) -> str:
    """Make foreign text safe for a terminal: no control characters, no markup, cut at `limit` characters."""
    cleaned = "".join(character if character.isprintable() else "�" for character in str(text))
    if len(cleaned) > limit:
        cleaned = cleaned[: limit - 1] + "…"
    return escape(cleaned)


def at(time_ms: int) -> str:
    """Return a time in UTC, to the second."""
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms"


def print_table(title: str | None, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table on standard output; cells are escaped.

    If the terminal is too narrow for the longest words of all columns side by side, every row becomes a list
    of its cells, one per line: nothing is cut, and an id can still be copied.
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
    """Print a message on standard error (rich markup allowed: escape foreign text)."""
    if _json_lines:
        _logger.info(Text.from_markup(message).plain)
    else:
        err.print(message)


def use_json_lines(*, are_used: bool) -> None:
    """Choose whether standard error is for programs from here on: messages and errors then become log
    lines.
    """
    global _json_lines  # noqa: PLW0603
    _json_lines = are_used


def exit_status(error: BaseException) -> int:
    """Return the exit status for an error: whether to start the command again, or to look at it first."""
    if isinstance(error, SettingsError):
        return EXIT_USAGE
    return EXIT_TRY_AGAIN if getattr(error, "passes", False) else EXIT_FAILED


def print_error(error: BaseException, *, hint: str | None = None) -> None:
    """Print one line with the error and its stable code, and one line with the remedy."""
    code = getattr(error, "code", type(error).__name__)
    hint = hint or getattr(error, "hint", None)
    text = str(error)
    if isinstance(error, OSError) and isinstance(error.filename, str | bytes) and error.strerror:
        # Leave out the error number and the quotes that Python adds.
        text = f"{os.fsdecode(error.filename)}: {error.strerror}"
    if _json_lines:
        _logger.error(text, extra={"code": code, **({"hint": hint} if hint else {})})
        return
    err.print(f"[bold red]error[/]: {safe(text, _ERROR_LIMIT) or type(error).__name__} [dim]({code})[/]")
    if hint:
        err.print(f"[bold]hint[/]: {escape(hint)}")


def progress() -> Progress:
    """Return a progress display on standard error; it shows nothing if that is not a terminal."""
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
    """Show progress on one line; yields a function that sets `completed`, `advance`, `total` or
    `description`.
    """
    with progress() as display:
        yield partial(display.update, display.add_task(what, total=total, visible=visible))


def show_progress(display: Progress) -> Callable[[str, int, int], None]:
    """Return a function that shows the progress of each part of a long task on its own line: done, total."""
    tasks: dict[str, TaskID] = {}

    def show(what: str, done: int, total: int) -> None:
        if what not in tasks:
            tasks[what] = display.add_task(what)
        display.update(tasks[what], completed=done, total=total)

    return show


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """Destination of a command's results."""

    json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print JSON Lines: one object for each result, no line if there is no result."
        ),
    ] = False

    def one(self, row: Row, text: str) -> None:
        """Print one result: the row as JSON, or the text."""
        if self.json:
            emit_json(row)
        else:
            out.print(text, markup=False)

    def event(self, row: Row, words: str) -> None:
        """Report an event that happened meanwhile; people see it on standard error (rich markup allowed)."""
        if self.json:
            emit_json(row)
        else:
            say(words)

    def rows(self, rows: Iterable[Row], columns: Columns, *, title: str | None = None) -> None:
        """Print a list: one JSON object per line, or a table."""
        if self.json:
            for row in rows:
                emit_json(row)
        else:
            table(title, columns, rows)

    def say(self, message: str) -> None:
        """Print a remark for people on standard error (rich markup allowed); nothing with `--json`."""
        if not self.json:
            say(message)

    def next(self, *commands: str) -> None:
        """Name the commands that usually follow, on one line of standard error; nothing with `--json`."""
        if not self.json:
            say("next: " + ", ".join(f"[bold]{escape(command)}[/]" for command in commands))

    def passed_over(self, passed_over: PassedOver) -> None:
        """Report the skipped records of a topic; with `--json` as one more object, a `problem`."""
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
        say(f"[yellow]{passed_over.records} records of `{passed_over.topic}` were skipped[/]: {few}")


def table(title: str | None, columns: Columns, rows: Iterable[Row]) -> None:
    """Print rows as a table for people."""
    print_table(title, tuple(columns), (list(cells(columns, row)) for row in rows))
