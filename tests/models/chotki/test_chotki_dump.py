"""Fresh stores, and stores as text, as the Go replica has them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from culm_models.chotki.dump import dump
from culm_models.chotki.ids import Id, object_key
from culm_models.chotki.log0 import fresh_store

VECTORS = Path(__file__).parents[2] / "vectors" / "chotki"


def recorded(name: str) -> Any:
    return json.loads((VECTORS / f"{name}.json").read_text())


def store(hexadecimal: dict[str, str]) -> dict[bytes, bytes]:
    return {bytes.fromhex(key): bytes.fromhex(value) for key, value in hexadecimal.items()}


@pytest.mark.parametrize(
    ("side", "src", "name"), [("listener", 0xA, "replica a"), ("connector", 0xB, "replica b")]
)
def test_a_fresh_store_is_that_of_a_fresh_replica(side: str, src: int, name: str) -> None:
    expected = store(recorded("empty_empty")["before"][side])
    assert fresh_store(src, name) == expected
    assert list(fresh_store(src, name)) == sorted(expected)


def test_a_store_is_printed_as_the_replica_prints_its_own() -> None:
    session = recorded("full_connector_empty_listener")
    assert dump(store(session["after"]["listener"])) == session["text"]


def test_what_cannot_be_read_is_printed_in_hex() -> None:
    key = object_key(Id.make(0xA, 1, 1), "I")
    assert dump({key: b"0" + b"\1" * 9}) == f"a-1-1.I:\t30{'01' * 9}\n\n"
