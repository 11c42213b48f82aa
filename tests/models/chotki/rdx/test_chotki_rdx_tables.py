"""Values against the recorded tables of the Go replica, byte for byte."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from culm_models.chotki.compat import Compat
from culm_models.chotki.dump import print_field
from culm_models.chotki.errors import TextMalformed, ValueMalformed
from culm_models.chotki.rdx import (
    check_value,
    delta,
    merge,
    parse_class,
    parse_text,
    parse_vector,
    print_text,
    stamp,
    xdiff,
)
from culm_models.chotki.rdx.batch import merge_many
from culm_models.chotki.rdx.classes import ClassField, write_class
from culm_models.chotki.rdx.first import LOWEST_RAW, write_element, write_first
from tests.models.chotki.rdx_tables import TABLES

ORDERS_MAX = 24


@pytest.mark.parametrize("row", TABLES["merges"] + TABLES["odd_merges"])
def test_merges(row: dict[str, Any]) -> None:
    inputs = [bytes.fromhex(operand_hex) for operand_hex in row["inputs"]]
    assert merge(row["type"], inputs).hex() == row["merged"]
    if "printed" in row:
        assert print_field(row["type"], bytes.fromhex(row["merged"])) == row["printed"]


@pytest.mark.parametrize("row", [row for row in TABLES["merges"] if row["order_independent"]])
def test_merges_in_any_order_and_grouping(row: dict[str, Any]) -> None:
    inputs = [bytes.fromhex(operand_hex) for operand_hex in row["inputs"]]
    letter = row["type"]
    for order in list(permutations(inputs))[:ORDERS_MAX]:
        assert merge(letter, order).hex() == row["merged"]
        merged = order[0]
        for operand in order[1:]:
            merged = merge(letter, [merged, operand])
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
    fields = [
        {"index": field.index, "name": field.name, "offset": field.offset, "type": field.letter}
        for field in parse_class(bytes.fromhex(row["tlv"]))
    ]
    assert fields == row["fields"]


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


# Values at the limits of what stamps can say, against rows that the Go replica merged.


GO_ROWS = [
    ("N", ["7400740104", "74027800"], "74027800"),
    (
        "N",
        ["74023061", "740b39ffffffffffffffff006174053202026162740b3900000000000000800204740654ff00000061"],
        "740b39ffffffffffffffff006174053202026162740b3900000000000000800204740654ff00000061",
    ),
    (
        "N",
        ["7403310104740754ff0000006162", "740b39feffffffffffffff02627403310304"],
        "7403310104740754ff0000006162740b39feffffffffffffff02627403310304",
    ),
    (
        "Z",
        ["690b39feffffffffffffff02046903780061", "690a39ffffffffffffffff00690474050004"],
        "690a39ffffffffffffffff00690474050004690b39feffffffffffffff02046903780061",
    ),
    ("Z", ["690474050061", "6904320505616902336169022d04"], "6904740500616904320505616902336169022d04"),
    (
        "Z",
        ["6903336162", "69043205010469022d04690278006903320001"],
        "690333616269043205010469022d04690278006903320001",
    ),
    (
        "E",
        ["690231056904320202627400730c39feffffffffffffff056162", "6605376162636272053761626361"],
        "690231056904320202627400730c39feffffffffffffff056162",
    ),
    (
        "E",
        ["730c390000000000000080006162", "660432010561730a39ffffffffffffffff02"],
        "660432010561730a39ffffffffffffffff02730c390000000000000080006162",
    ),
    ("E", ["730161690432000104730432020562", "740130"], "740130690432000104730432020562"),
    (
        "M",
        [
            "69022d6169023362740654ff000000627203310262",
            "740b39fdffffffffffffff0504690c39fdffffffffffffff006162690432020161",
        ],
        "69022d6169023362740654ff000000627203310262740b39fdffffffffffffff0504690c39fdffffffffffffff006162",
    ),
    (
        "M",
        [
            "730432010562740b3900000000000000800162730b39feffffffffffffff0104720432030561",
            "660374050069023362660432020261",
        ],
        "660374050069023362730432010562740b3900000000000000800162730b39feffffffffffffff0104720432030561",
    ),
    ("M", ["69043103616273053761626361", "730c39ffffffffffffffff026162"], "69043103616273053761626361"),
    ("C", ["7402616274023104", "7403740500"], "740374050074023104"),
    ("C", ["740c39ffffffffffffffff026162", "7403320102"], "7403320102740c39ffffffffffffffff026162"),
    ("C", ["74023104", "7403310362740474050004"], "740331036274047405000474023104"),
    ("S", ["39ffffffffffffffff0161"], ""),
    ("S", ["39ffffffffffffffff0162", "30"], "30"),
    ("S", ["32020161", "39ffffffffffffffff097a"], "32020161"),
    ("S", ["39feffffffffffffff0161", "39ffffffffffffffff097a"], "39feffffffffffffff0161"),
]
"""Type, operands, and what the Go replica merges them to: elements without a whole stamp, revision -2^63."""


@pytest.mark.parametrize(("letter", "operands", "merged"), GO_ROWS)
def test_what_no_correct_writer_makes_is_merged_as_the_go_replica_does(
    letter: str, operands: list[str], merged: str
) -> None:
    assert merge(letter, [bytes.fromhex(operand) for operand in operands]).hex() == merged


def test_many_registers_at_once_rank_the_lowest_revision_as_one_does() -> None:
    values = [write_first(raw, src, b"v") for raw in (0, 2, LOWEST_RAW, LOWEST_RAW - 1) for src in (1, 2)]
    fields = [[left, right] for left in values for right in values] * 4
    assert merge_many("S", fields) == [merge("S", operands) for operands in fields]


@pytest.mark.parametrize("letter", "FIRST")
def test_the_lowest_revision_is_refused_on_arrival(letter: str) -> None:
    check_value(letter, write_first(LOWEST_RAW - 1, 1, b"\x02"))
    lowest = write_first(LOWEST_RAW, 1, b"\x02")
    with pytest.raises(ValueMalformed):
        check_value(letter, lowest)
    check_value(letter, lowest, compat=Compat.GO)
    check_value("E", write_element(ord(letter), LOWEST_RAW, 1, b"\x02"))


def test_a_class_lists_an_old_and_a_new_name_as_the_go_replica_does() -> None:
    old, new, other = ClassField(1, "S", "Name"), ClassField(1, "S", "Title"), ClassField(2, "I", "Age")
    value = write_class([old, new, other])
    assert parse_class(value)[1:] == [new, other]
    assert parse_class(value, compat=Compat.GO)[1:] == [old, new, other]
