"""The tables of a deployment, opened for a test."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from culm_infra.console.tables import ConsoleTable, Detail, TableContext, TablePage, TableRow, open_tables
from culm_topics.kafka.clients import KafkaSettings
from tests.support.process.waiting import looks

MEMORY = 16 * 1024 * 1024


@contextmanager
def opened(
    kafka: KafkaSettings, *, max_table_bytes: int = MEMORY, scan_timeout_s: float = 30.0
) -> Iterator[Mapping[str, ConsoleTable]]:
    """Open the tables, and close them at the end."""
    context = TableContext(kafka, max_table_bytes, scan_timeout_s)
    with context.stack:
        yield open_tables(context)


def page(
    table: ConsoleTable,
    search: str = "",
    cursor: str = "",
    limit: int = 50,
    *,
    when: Callable[[TablePage], object] = lambda page: page.complete,
) -> TablePage:
    """Return the page once the condition holds; by default once everything has been read."""
    for _ in looks(f"a page of {table.spec.name}"):
        found = table.page(search, cursor, limit)
        if when(found):
            return found
    raise AssertionError("the loop ends with a page or an error")


def all_rows(table: ConsoleTable, limit: int) -> list[TableRow]:
    """Return the rows of all pages."""
    rows: list[TableRow] = []
    cursor = ""
    page(table)
    while True:
        part = table.page("", cursor, limit)
        assert len(part.rows) <= limit
        rows += part.rows
        if part.next is None:
            return rows
        cursor = part.next


def keys(found: TablePage) -> list[str]:
    """Return the keys of a page's rows."""
    return [row.key for row in found.rows]


def section(detail: Detail, title: str) -> list[dict[str, Any]]:
    """Return the rows of a section as mappings."""
    (chosen,) = [part for part in detail.sections if part.title == title]
    names = [column.name for column in chosen.columns]
    return [dict(zip(names, row, strict=True)) for row in chosen.rows]


def note(detail: Detail, title: str) -> str | None:
    """Return the note of a section."""
    return next(part.note for part in detail.sections if part.title == title)
