"""Sessions and reactions of Go replicas, loaded once, and stores written in hex."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from culm_models.chotki.store import MemoryStore

_FOLDER = Path(__file__).parents[2] / "vectors" / "chotki"


@cache
def recorded(name: str) -> Any:
    """The contents of a file of vectors."""
    return json.loads((_FOLDER / f"{name}.json").read_text())


def store_of(values: dict[str, str]) -> MemoryStore:
    """A store of these keys and values in hex."""
    return MemoryStore({bytes.fromhex(key): bytes.fromhex(value) for key, value in values.items()})


def in_hex(store: MemoryStore) -> dict[str, str]:
    """A store's keys and values in hex."""
    return {key.hex(): value.hex() for key, value in store.values().items()}
