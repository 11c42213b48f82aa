"""Tables described once: the column heads and cells for people; programs get the complete rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]
"""A result as `--json` prints it."""
Cell = str | Callable[[Row], object]
"""The key of a value in a row, or a function from a row to the displayed value."""
Columns = Mapping[str, Cell] | Sequence[str]
"""Cells by the heads of their columns; heads alone if they equal the keys."""


def of(key: str, text: Callable[[Any], object]) -> Cell:
    """Return a cell that shows the value of a key through a function; None is shown as a dash."""
    return lambda row: None if row[key] is None else text(row[key])


def cells(columns: Columns, row: Row) -> Iterator[object]:
    """Yield the displayed values of a row in the order of the columns."""
    for cell in columns.values() if isinstance(columns, Mapping) else columns:
        value = row[cell] if isinstance(cell, str) else cell(row)
        if isinstance(value, bytes):
            yield value.hex()
        elif isinstance(value, list | tuple):
            yield ", ".join(map(str, value))
        else:
            yield "-" if value is None else value
