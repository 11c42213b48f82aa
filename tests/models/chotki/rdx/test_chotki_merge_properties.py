"""Merges hang together: order, grouping and repetition do not matter, diffs bring what a replica lacks."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.chotki.compat import Compat
from culm_models.chotki.errors import ValueMalformed
from culm_models.chotki.rdx import (
    FIELD_LETTERS,
    check_value,
    delta,
    merge,
    parse_text,
    parse_vector,
    print_text,
    stamp,
    xdiff,
)
from culm_models.chotki.rdx.batch import merge_fields, merge_many
from culm_models.chotki.rdx.column import BytesColumn
from culm_models.chotki.rdx.diff import counter_sum, natural_sum
from culm_models.chotki.rdx.first import elements, pairs, read_first
from culm_models.chotki.rdx.merge import merge_by_heap, merge_series
from tests.models.chotki.drawn_values import MERGED_IN_ANY_ORDER, SLOPPY_VALUES, SOURCES, written, written_by


@pytest.mark.parametrize("letter", MERGED_IN_ANY_ORDER)
@given(st.data())
def test_order_grouping_and_repetition_do_not_matter(letter: str, data: st.DataObject) -> None:
    operands = data.draw(st.lists(written(letter), min_size=1, max_size=5))
    merged = merge(letter, operands)
    check_value(letter, merged)
    assert merge(letter, data.draw(st.permutations(operands))) == merged
    cut = data.draw(st.integers(1, len(operands)))
    left = merge(letter, operands[:cut])
    right = [merge(letter, operands[cut:])] if operands[cut:] else []
    assert merge(letter, [left, *right]) == merged
    assert merge(letter, [merged, *operands, merged]) == merged


@pytest.mark.parametrize("letter", MERGED_IN_ANY_ORDER)
@given(st.data())
def test_a_difference_brings_what_a_replica_lacks(letter: str, data: st.DataObject) -> None:
    logs = {src: data.draw(st.lists(written_by(letter, src), max_size=3)) for src in SOURCES}
    ours = {src: data.draw(st.integers(0, len(log))) for src, log in logs.items()}
    theirs = {src: data.draw(st.integers(0, len(log))) for src, log in logs.items()}

    def value(known: dict[int, int]) -> bytes:
        return merge(letter, [field for src, log in logs.items() for field in log[: known[src]]])

    wanted = {src: ours[src] for src in SOURCES if ours[src] > theirs[src]}
    difference = xdiff(letter, value(ours), wanted)
    both = {src: max(ours[src], theirs[src]) for src in SOURCES}
    assert merge(letter, [value(theirs), difference] if difference else [value(theirs)]) == value(both)


@pytest.mark.parametrize("letter", "OY")
def test_of_classes_the_first_holds(letter: str) -> None:
    assert merge(letter, [b"\1", b"\2"]) == b"\1"
    assert merge(letter, [b"", b"\2"]) == b""
    assert xdiff(letter, b"\1", dict.fromkeys(range(300), 0)) == b""


@pytest.mark.parametrize("letter", "LQ")
def test_lists_and_unknown_types_are_put_one_behind_the_other(letter: str) -> None:
    assert merge(letter, [b"a", b"", b"b", b"a"]) == b"aba"


ranked = st.tuples(st.integers(0, 4), st.integers(0, 2), st.sampled_from([b"a", b"b", b"c"]))


@given(st.lists(st.lists(ranked, max_size=6), max_size=6))
def test_what_needs_no_heap_comes_out_as_from_the_heap(inputs: list[list[Any]]) -> None:
    assert merge_series(inputs) == merge_by_heap(inputs)


@given(st.lists(st.dictionaries(st.integers(0, 6), st.integers(0, 3)), max_size=6))
def test_sorted_series_come_out_as_from_the_heap(drawn: list[dict[int, int]]) -> None:
    inputs = [
        [(key, rank, b"%d.%d " % (key, rank)) for key, rank in sorted(series.items())] for series in drawn
    ]
    assert merge_series(inputs) == merge_by_heap(inputs)


def in_batches(letter: str, fields: list[list[bytes]]) -> list[bytes]:
    first = np.cumsum([0, *map(len, fields)])[:-1].astype(np.int64)
    return list(
        merge_fields(letter, BytesColumn.of([operand for field in fields for operand in field]), first)
    )


@pytest.mark.parametrize("letter", sorted(FIELD_LETTERS | {"Q"}))
@given(st.data())
def test_batches_are_what_single_merges_are(letter: str, data: st.DataObject) -> None:
    of = written(letter) | SLOPPY_VALUES if letter in MERGED_IN_ANY_ORDER else SLOPPY_VALUES
    fields = data.draw(st.lists(st.lists(of, min_size=1, max_size=4), max_size=6))
    assert in_batches(letter, fields) == [merge(letter, field) for field in fields]


@pytest.mark.parametrize("letter", sorted(FIELD_LETTERS))
@given(st.data())
def test_many_fields_are_what_single_merges_are_however_many_there_are(
    letter: str, data: st.DataObject
) -> None:
    drawn = data.draw(st.lists(st.lists(SLOPPY_VALUES, min_size=1, max_size=4), max_size=3))
    for fields in (drawn, drawn * 150):
        assert merge_many(letter, fields) == [merge(letter, field) for field in fields]


@pytest.mark.parametrize("letter", "IRSNZV")
@given(st.data())
def test_batches_in_many_pieces_are_what_single_merges_are(letter: str, data: st.DataObject) -> None:
    fields = data.draw(st.lists(st.lists(written(letter), min_size=1, max_size=4), min_size=1, max_size=6))
    bounds = {
        "PIECE_OPERANDS": data.draw(st.integers(1, 6)),
        "PIECE_BYTES": data.draw(st.integers(1, 60)),
        "SERIES_BYTES_MAX": data.draw(st.sampled_from([5, 20, 1000])),
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, bound in bounds.items():
            patch.setattr(f"culm_models.chotki.rdx.batch.{name}", bound)
        assert in_batches(letter, fields) == [merge(letter, field) for field in fields]


@pytest.mark.parametrize("letter", "NZEMC")
@given(st.lists(SLOPPY_VALUES, min_size=1, max_size=4))
def test_series_that_are_too_long_to_be_held_come_out_alike(letter: str, operands: list[bytes]) -> None:
    merged = merge(letter, operands)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(import_module("culm_models.chotki.rdx.merge"), "LISTED_BYTES_MAX", -1)
        assert merge(letter, operands) == merged


def test_a_column_that_is_a_part_of_another_is_merged_alone() -> None:
    column = BytesColumn.of([b"x", b"32000a", b"0a", b"y"])
    part = BytesColumn(column.data, column.offsets[1:4])
    assert list(merge_fields("S", part, np.array([0, 1]))) == [merge("S", [b"32000a"]), b"0a"]


def test_sources_too_large_for_one_word_with_their_field_are_merged_too() -> None:
    large = merge("V", [b"v\x10" + b"\xff" * 12 + bytes(4), b"v\x01\x05"])
    fields = [[large, large], [large], [b"v\x01\x05", b"v\x02\x05\x01"]]
    assert in_batches("V", fields) == [large, large, b"v\x02\x05\x01"]


# A delta makes the old value into the new one.


OWN = 0xB


def after(letter: str, old: bytes, new: bytes, src: int = OWN) -> bytes:
    operand = delta(letter, old, new, src=src)
    return merge(letter, [old, stamp(letter, operand, src)]) if operand else old


def values(letter: str) -> st.SearchStrategy[bytes]:
    return st.lists(written(letter), min_size=1, max_size=4).map(lambda operands: merge(letter, operands))


@pytest.mark.parametrize("letter", "FIRST")
@given(st.data())
def test_a_register_has_the_new_value(letter: str, data: st.DataObject) -> None:
    old, new = data.draw(values(letter)), data.draw(values(letter))
    assert read_first(after(letter, old, new))[2] == read_first(new)[2]
    assert delta(letter, old, old) == b""
    assert delta(letter, b"", new) == delta(letter, b"0", new)


@given(values("N") | st.just(b""), st.integers(0, 1 << 50), st.sampled_from(SOURCES))
def test_a_natural_counter_only_grows(old: bytes, new: int, src: int) -> None:
    merged = after("N", old, parse_text("N", str(new)), src)
    assert natural_sum(merged) == max(new, natural_sum(old))
    assert {element[2] for element in elements(delta("N", old, parse_text("N", str(new)), src=src))} <= {src}


@given(values("Z") | st.just(b""), st.integers(-(1 << 62), 1 << 62), st.sampled_from(SOURCES))
def test_an_integer_counter_has_the_new_sum(old: bytes, new: int, src: int) -> None:
    assert counter_sum(after("Z", old, parse_text("Z", str(new)), src)) == new


@given(values("E") | st.just(b""), values("E"))
def test_a_set_has_the_elements_of_the_new_one(old: bytes, new: bytes) -> None:
    def present(data: bytes) -> set[bytes]:
        return {element[3] for element in elements(data) if not element[1] & 1}

    merged = after("E", old, new)
    assert present(merged) == present(new)
    assert delta("E", merged, new) == b""


@pytest.mark.parametrize("compat", Compat)
@given(values("M") | st.just(b""), values("M"))
def test_a_map_has_the_pairs_of_the_new_one(compat: Compat, old: bytes, new: bytes) -> None:
    def held(data: bytes) -> dict[tuple[int, bytes], bytes]:
        return {(key[0], key[3]): value[3] for key, value in pairs(data) if value[3]}

    operand = delta("M", old, new, compat=compat)
    merged = merge("M", [old, stamp("M", operand, OWN)])
    assert held(merged) == held(new)


@given(values("V") | st.just(b""), values("V"))
def test_a_vector_reaches_the_new_one(old: bytes, new: bytes) -> None:
    merged = after("V", old, new)
    assert all(parse_vector(merged)[src] >= pro for src, pro in parse_vector(new).items())
    assert delta("V", merged, new) == b""


@given(values("C") | st.just(b""), values("C"))
def test_a_class_has_the_entries_of_the_new_one(old: bytes, new: bytes) -> None:
    assert after("C", old, new) == merge("C", [old, new])
    assert delta("C", new, new) == b""


def test_by_default_the_stamp_of_a_key_counts_too() -> None:
    old = bytes.fromhex("73043214 0a61 73043202 0a31".replace(" ", ""))
    new = parse_text("M", '{"a":"2"}')
    assert delta("M", old, new).hex() == "7303311661" + "7303311632"
    assert delta("M", old, new, compat=Compat.GO).hex() == "7303310461" + "7303310432"


def test_a_set_takes_elements_away_and_back() -> None:
    old = bytes.fromhex("690432020a04")
    gone = after("E", old, b"")
    assert gone.hex() == "690432030b04"
    assert print_text("E", gone) == "{}"
    assert after("E", gone, parse_text("E", "{2}")).hex() == "690432060b04"


def test_lists_grow_and_objects_keep_their_class() -> None:
    assert delta("L", b"ab", b"abc") == b"c"
    with pytest.raises(ValueMalformed):
        delta("L", b"ab", b"b")
    assert delta("O", b"", b"\1") == b"\1"
    assert delta("O", b"\1", b"\2") == b""


def test_the_highest_revision_has_none_above_it() -> None:
    old = bytes.fromhex("7410ffffffffffffffff0a00000000000000") + b"x"
    assert delta("S", old, b"0y").hex() == "39feffffffffffffff" + "0079"
