"""Values of documents that others wrote: each is checked and bounded before it is kept."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

MAX_TEXT: Final = 300
MAX_ITEMS: Final = 64
_LARGEST: Final = 2**53
"""JavaScript has larger whole numbers only approximately."""


def text(value: object, limit: int = MAX_TEXT) -> str | None:
    """Return a text without control characters, cut at the limit; None for anything else."""
    if not isinstance(value, str):
        return None
    cleaned = "".join(each if each.isprintable() else " " for each in value[: limit + 1])
    return cleaned if len(cleaned) <= limit else cleaned[: limit - 1] + "…"


def texts(value: object, limit: int = 20) -> tuple[str, ...]:
    """Return the texts of a list, up to the limit."""
    items = value if isinstance(value, list | tuple) else ()
    return tuple(cleaned for each in items[:limit] if (cleaned := text(each)) is not None)


def number(value: object) -> float | None:
    """Return a finite number; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if math.isfinite(value) and abs(value) <= _LARGEST else None


def whole(value: object) -> int | None:
    """Return a number as a whole one; None for anything else."""
    checked = number(value)
    return None if checked is None else int(checked)


def count(value: object) -> int:
    """Return a number of things; 0 for anything else."""
    return max(0, whole(value) or 0)


def total(value: object) -> int | None:
    """Return the sum of the numbers in a table; None for anything else."""
    return sum(map(count, value.values())) if isinstance(value, Mapping) else None


def table(value: object) -> Mapping[str, Any]:
    """Return a table; an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def tables(value: object, limit: int = MAX_ITEMS) -> Iterator[Mapping[str, Any]]:
    """Yield the tables in a list, up to the limit."""
    for each in value[:limit] if isinstance(value, list) else ():
        if isinstance(each, Mapping):
            yield each
