"""The persistent state of a stack between commands: one JSON file, replaced as a whole."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from culm_infra.stack.errors import StackStateError
from culm_infra.stack.process import ProcessIdentity

FORMAT = 1


@dataclass(frozen=True, slots=True)
class StackRecord:
    """Identity, ports and settings of a stack, and its process while one runs."""

    cluster_id: str
    port: int
    controller_port: int
    heap_mb: int
    properties: dict[str, str] = field(default_factory=dict)
    formatted: bool = False
    process: ProcessIdentity | None = None


def read(path: Path) -> StackRecord | None:
    """Return the record; None before the first start. Raises `StackStateError`."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        return None
    try:
        row: dict[str, Any] = json.loads(text)
        if row.pop("format") != FORMAT:
            raise ValueError("another format")
        process = row.pop("process")
        return StackRecord(**row, process=None if process is None else ProcessIdentity(**process))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StackStateError(
            f"{path} is not the record of a stack: {error}",
            hint="stop its broker if one runs, delete the directory and start the stack again",
        ) from error


def write(path: Path, record: StackRecord) -> None:
    """Replace the record."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_text(json.dumps({"format": FORMAT, **asdict(record)}, indent=2) + "\n")
    fresh.replace(path)
