"""The files of tests/vectors/dag."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "vectors" / "dag"


def recorded(name: str) -> Any:
    """What a file holds."""
    return json.loads((FOLDER / f"{name}.json").read_text())


def entries(row: dict[str, Any]) -> tuple[list[str], list[tuple[str, str]]]:
    """The files of a row of `directories`, whose content is their name, and its links with their targets."""
    names = [f"{number:0{row['digits']}}" for number in range(row.get("count", 0))]
    return names + row.get("names", []), [(name, target) for name, target in row.get("links", [])]
