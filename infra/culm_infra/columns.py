"""Tables described once: by the heads of their columns what people see of rows that programs get whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]
"""A result as `--json` prints it."""
Cell = str | Callable[[Row], object]
"""The key of a value in a row, or what people see of a row."""
Columns = Mapping[str, Cell] | Sequence[str]
"""Cells by the heads of their columns; heads alone where they are the keys."""


def of(key: str, text: Callable[[Any], object]) -> Cell:
    """The value of a key as a function shows it; of none, nothing is shown but a dash."""
    return lambda row: None if row[key] is None else text(row[key])


def cells(columns: Columns, row: Row) -> Iterator[object]:
    """What people see of a row, in the order of the columns."""
    for cell in columns.values() if isinstance(columns, Mapping) else columns:
        value = row[cell] if isinstance(cell, str) else cell(row)
        if isinstance(value, bytes):
            yield value.hex()
        elif isinstance(value, list | tuple):
            yield ", ".join(map(str, value))
        else:
            yield "-" if value is None else value
