"""The p2panda vectors, read once, and messages of set reconciliation as hypothesis draws them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from culm_models.p2panda.operations import identifiers
from culm_models.p2panda.operations.operation import Value
from culm_models.p2panda.wire.messages import Bound
from culm_models.reconciliation.messages import (
    Done,
    EmptyPayload,
    EmptySet,
    Fingerprint,
    LowerBound,
    Payload,
    ReconciliationMessage,
    Terminal,
)

_FOLDER = Path(__file__).parents[2] / "vectors" / "p2panda"


@cache
def read(name: str) -> Any:
    """The content of one vector file."""
    return json.loads((_FOLDER / name).read_text())


def chain_entries() -> list[dict[str, Any]]:
    """Every entry of every chain, with the keys of its chain beside its own."""
    return [
        {**entry, **{key: value for key, value in chain.items() if key != "entries"}}
        for chain in read("chains.json")["chains"]
        for entry in chain["entries"]
    ]


def pairs() -> list[tuple[bytes, bytes]]:
    """Every (entry bytes, operation bytes) of the chains."""
    return [(bytes.fromhex(row["entry"]), bytes.fromhex(row["operation"])) for row in chain_entries()]


def field_value(field: dict[str, Any]) -> Value:
    """A field of a chain's entry in the form that operations hold."""
    value = field["value"]
    match field["type"]:
        case "bytes" | "relation":
            return bytes.fromhex(value)
        case "float":
            return float(value)
        case "int":
            return int(value)
        case "relation_list":
            return tuple(map(bytes.fromhex, value))
        case "pinned_relation":
            return identifiers.view_id(map(bytes.fromhex, value))
        case "pinned_relation_list":
            return tuple(identifiers.view_id(map(bytes.fromhex, view)) for view in value)
        case "str" | "bool":
            return value  # type: ignore[no-any-return]
        case kind:
            raise AssertionError(f"a field of the unknown type {kind}")


def fields_of(entry: dict[str, Any]) -> dict[str, Value] | None:
    """All fields of a chain's entry, None for a delete."""
    if entry["fields"] is None:
        return None
    return {name: field_value(field) for name, field in entry["fields"].items()}


def reconciliation_messages(
    numbers: st.SearchStrategy[int], bounds: st.SearchStrategy[Bound]
) -> st.SearchStrategy[ReconciliationMessage]:
    """Each message type, in each of its lengths, of sessions with these numbers and about these bounds."""
    return st.one_of(
        st.builds(EmptySet, numbers, st.booleans()),
        st.builds(LowerBound, numbers, bounds),
        st.builds(Payload, numbers, bounds),
        st.builds(Payload, numbers, bounds, st.booleans()),
        st.builds(Payload, numbers, bounds, st.booleans(), bounds),
        st.builds(EmptyPayload, numbers, bounds),
        st.builds(Done, numbers, bounds),
        st.builds(Fingerprint, numbers, st.binary(max_size=64), bounds),
        st.builds(Terminal, numbers),
    )
