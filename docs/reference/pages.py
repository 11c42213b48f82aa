"""The table of rendered pages: the path of each, and the function that returns its text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from docs.reference import commands, error_codes, metrics

DOCS: Final = Path(__file__).parent.parent

PAGES: Final[dict[Path, Callable[[], str]]] = {
    DOCS / "commands.md": commands.render,
    DOCS / "metrics.md": metrics.render,
    DOCS / "error-codes.md": error_codes.render,
}
