"""Parts of Markdown that all rendered pages use."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence


def paragraph(text: str) -> str:
    """Return text as one wrapped paragraph; lines of a list stay lines."""
    if text.lstrip().startswith(("- ", "* ", "1. ", "|", "    ")):
        return text
    return textwrap.fill(" ".join(text.split()), 110, break_long_words=False, break_on_hyphens=False)


def cell(text: str) -> str:
    """Return text as a cell of a table."""
    return " ".join(text.split()).replace("\\|", "|").replace("|", "\\|")


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; its cells must be `cell`s. A column without any text is left out."""
    lines = [tuple(row) for row in rows]
    kept = [column for column in range(len(titles)) if column == 0 or any(row[column] for row in lines)]
    rendered = [[titles[column] for column in kept], ["---"] * len(kept)]
    rendered += [[row[column] for column in kept] for row in lines]
    head, rule, *body = ("| " + " | ".join(line) + " |" for line in rendered)
    return "\n".join((head, rule.replace(" ", ""), *body)) + "\n"
