"""Results of commands: each described once, printed as text for people or with ``--json`` for programs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from culm_infra.cli.output import emit_json, out, print_table, safe, say
from culm_infra.columns import Columns, Row, cells

if TYPE_CHECKING:
    from culm_topics.readers.batch import PassedOver


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
