"""Values of fields as Python values, and back."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.chotki.ids import Id
from culm_models.chotki.rdx import check_value, delta, merge, parse_text, stamp
from culm_topics.chotki.errors import ValueRefused
from culm_topics.chotki.values import (
    Elements,
    Pairs,
    Term,
    Unreadable,
    plain_value,
    read_value,
    write_value,
)

integers = st.integers(-(1 << 63), (1 << 63) - 1)
ids = st.builds(Id.make, st.integers(0, 0xFFFFF), st.integers(0, (1 << 40) - 1), st.integers(0, 0xFFF))
texts = st.text(st.characters(exclude_categories=["Cs"]))
floats = st.floats(allow_nan=False)
scalars = integers | ids | texts | st.builds(Term, texts) | floats
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "F": floats,
    "I": integers,
    "R": ids,
    "S": texts,
    "T": st.builds(Term, texts),
    "N": st.integers(0, (1 << 64) - 1),
    "Z": integers,
    "V": st.dictionaries(st.integers(0, (1 << 64) - 1), st.integers(0, (1 << 52) - 1)),
}


@given(st.data())
def test_what_is_written_is_read(data: st.DataObject) -> None:
    letter = data.draw(st.sampled_from(sorted(VALUES)))
    value = data.draw(VALUES[letter])
    written = write_value(letter, value)
    check_value(letter, written)
    assert read_value(letter, written) == value


@given(st.lists(scalars))
def test_a_set_has_each_value_once(values: list[Any]) -> None:
    written = write_value("E", values)
    check_value("E", written)
    found = read_value("E", written)
    assert isinstance(found, Elements)
    assert found.removed == ()
    assert write_value("E", found) == written


@given(st.dictionaries(st.builds(Term, texts), st.integers(1, 1000) | texts.filter(bool)))
def test_a_map_keeps_its_pairs(values: dict[Any, Any]) -> None:
    written = write_value("M", values)
    check_value("M", written)
    assert read_value("M", written) == values


def test_texts_say_what_python_says() -> None:
    for letter, text, value in (
        ("I", "-11", -11),
        ("F", "2.5", 2.5),
        ("R", "a-1", Id.make(10, 1)),
        ("S", '"tide"', "tide"),
        ("T", "tide", Term("tide")),
        ("T", "tide", "tide"),
        ("E", '{1,"a",b}', [1, "a", Term("b")]),
        ("M", '{a:1,"b":c-1}', {Term("a"): 1, "b": Id.make(12, 1)}),
        ("N", "5", 5),
        ("Z", "-5", -5),
    ):
        assert write_value(letter, value) == parse_text(letter, text)


def test_a_removed_element_is_seen_as_removed() -> None:
    before = stamp("E", write_value("E", ["a", "b"]), 7)
    operand = delta("E", before, write_value("E", ["b"]))
    after = read_value("E", merge("E", [before, stamp("E", operand, 7)]))
    assert isinstance(after, Elements)
    assert (after, after.removed) == (("b",), ("a",))


def test_a_removed_pair_is_seen_as_removed() -> None:
    before = stamp("M", write_value("M", {"a": 1, "b": 2}), 7)
    operand = delta("M", before, write_value("M", {"b": 2}))
    after = read_value("M", merge("M", [before, stamp("M", operand, 7)]))
    assert isinstance(after, Pairs)
    assert (after, after.removed) == ({"b": 2}, ("a",))


@pytest.mark.parametrize(
    ("letter", "value"),
    [
        ("I", 1 << 63),
        ("I", True),
        ("I", "1"),
        ("F", "x"),
        ("S", 1),
        ("S", "\ud800"),
        ("R", "x"),
        ("N", -1),
        ("E", "abc"),
        ("E", [None]),
        ("M", [1]),
        ("M", {"a": ""}),
        ("L", [1]),
        ("C", {}),
        ("V", {-1: 0}),
    ],
)
def test_what_a_type_cannot_say_is_refused(letter: str, value: object) -> None:
    with pytest.raises(ValueRefused):
        write_value(letter, value)


def test_bytes_that_do_not_parse_are_shown_as_they_are() -> None:
    assert read_value("I", b"\xff") == Unreadable(b"\xff")
    assert read_value("Q", b"ab") == Unreadable(b"ab")
    assert plain_value(Unreadable(b"ab")) == {"unreadable": "6162"}


def test_plain_values_are_those_of_json() -> None:
    assert plain_value(Id.make(10, 1)) == "a-1"
    assert plain_value(Elements([1, Term("a")], ["b"])) == [1, "a"]
    assert plain_value(Pairs([(Term("a"), Id.make(1, 1))])) == {"a": "1-1"}
    assert plain_value(math.nan) == "nan"
    assert plain_value(None) is None
