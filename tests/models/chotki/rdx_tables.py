"""The recorded tables of the Go replica, loaded once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

TABLES: dict[str, list[dict[str, Any]]] = json.loads(
    (Path(__file__).parents[2] / "vectors" / "chotki" / "rdx_tables.json").read_text()
)
