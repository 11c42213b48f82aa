"""The files of tests/vectors/dag."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "vectors" / "dag"


def recorded(name: str) -> Any:
    """What a file holds."""
    return json.loads((FOLDER / f"{name}.json").read_text())
