"""Values against the recorded tables of the Go replica, byte for byte."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from culm_models.chotki.compat import Compat
from culm_models.chotki.dump import print_field
from culm_models.chotki.errors import TextMalformed
from culm_models.chotki.rdx import (
    delta,
    merge,
    parse_class,
    parse_text,
    parse_vector,
    print_text,
    stamp,
    xdiff,
)
from tests.models.chotki.rdx_tables import TABLES

ORDERS_MAX = 24


@pytest.mark.parametrize("row", TABLES["merges"] + TABLES["odd_merges"])
def test_merges(row: dict[str, Any]) -> None:
    inputs = [bytes.fromhex(one) for one in row["inputs"]]
    assert merge(row["type"], inputs).hex() == row["merged"]
    if "printed" in row:
        assert print_field(row["type"], bytes.fromhex(row["merged"])) == row["printed"]


@pytest.mark.parametrize("row", [row for row in TABLES["merges"] if row["order_independent"]])
def test_merges_in_any_order_and_grouping(row: dict[str, Any]) -> None:
    inputs = [bytes.fromhex(one) for one in row["inputs"]]
    letter = row["type"]
    for order in list(permutations(inputs))[:ORDERS_MAX]:
        assert merge(letter, order).hex() == row["merged"]
        merged = order[0]
        for one in order[1:]:
            merged = merge(letter, [merged, one])
        assert merged.hex() == row["merged"]


@pytest.mark.parametrize("row", TABLES["xdiff"])
def test_diffs(row: dict[str, Any]) -> None:
    wanted = parse_vector(bytes.fromhex(row["wanted"]))
    assert xdiff(row["type"], bytes.fromhex(row["tlv"]), wanted).hex() == row["diff"]


@pytest.mark.parametrize("row", TABLES["deltas"])
def test_deltas(row: dict[str, Any]) -> None:
    letter, src = row["type"], int(row.get("src", 0))
    new = (
        bytes.fromhex(row["new_tlv"])
        if "new_tlv" in row
        else parse_text(letter, row["new"], compat=Compat.GO)
    )
    old = bytes.fromhex(row["tlv"])
    assert delta(letter, old, new, src=src, compat=Compat.GO).hex() == row["delta"]
    if letter != "M":
        assert delta(letter, old, new, src=src).hex() == row["delta"]


@pytest.mark.parametrize("row", TABLES["stamp_source"])
def test_stamps(row: dict[str, Any]) -> None:
    assert stamp(row["type"], bytes.fromhex(row["tlv"]), int(row["src"])).hex() == row["result"]


@pytest.mark.parametrize("row", TABLES["classes"])
def test_classes(row: dict[str, Any]) -> None:
    found = [
        {"index": field.index, "name": field.name, "offset": field.offset, "type": field.letter}
        for field in parse_class(bytes.fromhex(row["tlv"]))
    ]
    assert found == row["fields"]


@pytest.mark.parametrize("row", TABLES["text"], ids=lambda row: f"{row['type']} {row.get('text')}")
def test_texts(row: dict[str, Any]) -> None:
    letter = row["type"]
    if row.get("nil"):
        with pytest.raises(TextMalformed):
            parse_text(letter, row["text"], compat=Compat.GO)
        return
    if "text" in row:
        assert parse_text(letter, row["text"], compat=Compat.GO).hex() == row["tlv"]
    assert print_text(letter, bytes.fromhex(row["tlv"])) == row["printed"]
