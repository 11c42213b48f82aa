"""What parses as a value of its type, and that nothing else does any harm."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.chotki.compat import Compat
from culm_models.chotki.dump import print_field
from culm_models.chotki.errors import ChotkiError, FieldLetterUnknown, PairLength, ValueMalformed
from culm_models.chotki.rdx import (
    FIELD_LETTERS,
    check_value,
    delta,
    merge,
    parse_class,
    parse_vector,
    print_text,
    stamp,
    xdiff,
)
from tests.models.chotki.drawn_values import MERGED_IN_ANY_ORDER, SLOPPY_VALUES, written

LETTERS = sorted(FIELD_LETTERS)


@pytest.mark.parametrize(
    ("letter", "value"),
    [
        ("I", "30"),
        ("I", "32080515"),
        ("S", "7400"),
        ("S", "541000000000000000000000000000000000000000"),
        ("T", "30ff"),
        ("R", "30"),
        ("R", "300a000010"),
        ("F", "300102030405060708"),
        ("N", ""),
        ("N", "740332050a"),
        ("N", "740130740130"),
        ("N", "540300000032050a"),
        ("Z", "690432020b0d"),
        ("E", "690432000b02730432000b78"),
        ("E", "74013073013069013072013066 0130"),
        ("L", "690432020b02"),
        ("M", ""),
        ("M", "730130730130"),
        ("V", ""),
        ("V", "76040000003076020a03"),
        ("V", "7600"),
        ("C", "7408304d004e616d6573"),
        ("C", "740130"),
        ("O", ""),
        ("O", "00000010"),
        ("Y", ""),
    ],
)
def test_these_parse(letter: str, value: str) -> None:
    check_value(letter, bytes.fromhex(value))


@pytest.mark.parametrize(
    ("letter", "value"),
    [
        ("I", ""),
        ("I", "31"),
        ("I", "690130"),
        ("S", "62"),
        ("S", "74"),
        ("S", "7405"),
        ("S", "5404000000ffffff"),
        ("S", "54ffffff7f"),
        ("I", "30010203040506070809"),
        ("F", "30010203040506070809"),
        ("N", "740430010203"),
        ("N", "7400"),
        ("N", "690130"),
        ("N", "30"),
        ("N", "740130ff"),
        ("Z", "740130"),
        ("Z", "690a30010203040506070809"),
        ("E", "760130"),
        ("E", "30"),
        ("L", "6905"),
        ("M", "730130"),
        ("V", "760a"),
        ("V", "740130"),
        ("C", "730130"),
        ("C", "74023053"),
        ("C", "7400"),
    ],
)
def test_these_do_not_parse(letter: str, value: str) -> None:
    for compat in Compat:
        with pytest.raises(ValueMalformed) as caught:
            check_value(letter, bytes.fromhex(value), compat=compat)
        assert caught.value.code == "chotki.value"


@pytest.mark.parametrize(
    ("letter", "value"),
    [
        ("I", "3701020304050607"),
        ("R", "3001020304050607"),
        ("N", "74083701020304050607"),
        ("Z", "69083701020304050607"),
        ("M", "7301307308 3701020304050607"),
        ("V", "760701020304050607"),
        ("O", "01020304050607"),
    ],
)
def test_a_pair_of_an_impossible_length_is_refused_but_taken_as_go_takes_it(letter: str, value: str) -> None:
    with pytest.raises(PairLength):
        check_value(letter, bytes.fromhex(value))
    check_value(letter, bytes.fromhex(value), compat=Compat.GO)


@pytest.mark.parametrize("letter", ["Q", "X", "0", "a", ""])
def test_other_letters_are_no_types(letter: str) -> None:
    with pytest.raises(FieldLetterUnknown):
        check_value(letter, b"")


def all_operations(letter: str, value: bytes, other: bytes) -> list[Callable[[], Any]]:
    return [
        lambda: check_value(letter, value),
        lambda: check_value(letter, value, compat=Compat.GO),
        lambda: print_text(letter, value),
        lambda: parse_class(value),
        lambda: delta(letter, value, other, src=10),
        lambda: delta(letter, value, other, src=10, compat=Compat.GO),
        lambda: stamp(letter, value, 10),
        lambda: xdiff(letter, value, {10: 1}),
        lambda: parse_vector(value),
    ]


@pytest.mark.parametrize("letter", [*LETTERS, "Q"])
@given(SLOPPY_VALUES, SLOPPY_VALUES)
def test_no_bytes_raise_anything_but_refusals(letter: str, value: bytes, other: bytes) -> None:
    merged = merge(letter, [value, other])
    assert len(merged) <= 3 * (len(value) + len(other))
    assert isinstance(print_field(letter, value), str)
    for operation in all_operations(letter, value, other):
        try:
            operation()
        except ChotkiError as error:
            assert error.code in {"chotki.value", "chotki.pair_length", "chotki.field_letter"}


def outcome(letter: str, value: bytes) -> bool:
    try:
        check_value(letter, value)
    except ChotkiError:
        return False
    return True


@pytest.mark.parametrize("letter", LETTERS)
@given(SLOPPY_VALUES, SLOPPY_VALUES)
def test_what_parses_can_be_merged_printed_and_stamped(letter: str, value: bytes, other: bytes) -> None:
    if outcome(letter, value) and outcome(letter, other):
        check_value(letter, merge(letter, [value, other]))
        check_value(letter, stamp(letter, value, 11))
        print_text(letter, value)
        if letter == "C":
            parse_class(value)


@pytest.mark.parametrize("letter", MERGED_IN_ANY_ORDER)
@given(st.data())
def test_a_value_cut_at_any_byte_is_another_value_or_refused(letter: str, data: st.DataObject) -> None:
    value = merge(letter, data.draw(st.lists(written(letter), min_size=1, max_size=3)))
    assert outcome(letter, value)
    for cut in range(len(value)):
        if outcome(letter, value[:cut]):
            merge(letter, [value[:cut], value])
            print_text(letter, value[:cut])


@pytest.mark.parametrize("letter", MERGED_IN_ANY_ORDER)
@given(st.data())
def test_a_changed_value_is_another_value_or_refused(letter: str, data: st.DataObject) -> None:
    value = bytearray(merge(letter, data.draw(st.lists(written(letter), min_size=1, max_size=3))))
    for _ in range(min(3, len(value))):
        value[data.draw(st.integers(0, len(value) - 1))] = data.draw(st.integers(0, 255))
    changed = bytes(value)
    if outcome(letter, changed):
        check_value(letter, merge(letter, [changed, changed]))
        print_text(letter, changed)


@pytest.mark.parametrize("letter", "FIRSTELM")
@given(st.data())
def test_a_stamped_value_names_one_source(letter: str, data: st.DataObject) -> None:
    value = data.draw(written("E" if letter == "L" else letter))
    src = data.draw(st.integers(0, (1 << 64) - 1))
    stamped = stamp(letter, value, src)
    assert stamp(letter, stamped, src) == stamped
    # A diff of what one source wrote is all of it or nothing.
    if letter in "FIRST":
        assert xdiff(letter, stamped, {src: 0}) == stamped
        assert xdiff(letter, stamped, {src ^ 1: 0}) == b""


@pytest.mark.parametrize(
    ("letter", "element"), [("E", "730130"), ("L", "730130"), ("M", "730130"), ("V", "7600")]
)
def test_a_value_of_many_elements_takes_no_more_memory_than_a_few_times_its_bytes(
    letter: str, element: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_module("culm_models.chotki.rdx.merge"), "LISTED_BYTES_MAX", 1 << 16)
    value = bytes.fromhex(element) * 50_000
    tracemalloc.start()
    try:
        check_value(letter, value)
        assert tracemalloc.get_traced_memory()[1] < len(value) // 10
        merge(letter, [value])
        stamp(letter, value, 10)
        assert tracemalloc.get_traced_memory()[1] < 10 * len(value)
    finally:
        tracemalloc.stop()
