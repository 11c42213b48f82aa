"""A delta makes the old value into the new one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.chotki.compat import Compat
from culm_models.chotki.errors import ValueMalformed
from culm_models.chotki.rdx import delta, merge, parse_text, parse_vector, print_text, stamp
from culm_models.chotki.rdx.diff import counter_sum, natural_sum
from culm_models.chotki.rdx.first import elements, pairs, read_first
from tests.models.chotki.drawn_values import SOURCES, written

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
    found = after("N", old, parse_text("N", str(new)), src)
    assert natural_sum(found) == max(new, natural_sum(old))
    assert {element[2] for element in elements(delta("N", old, parse_text("N", str(new)), src=src))} <= {src}


@given(values("Z") | st.just(b""), st.integers(-(1 << 62), 1 << 62), st.sampled_from(SOURCES))
def test_an_integer_counter_has_the_new_sum(old: bytes, new: int, src: int) -> None:
    assert counter_sum(after("Z", old, parse_text("Z", str(new)), src)) == new


@given(values("E") | st.just(b""), values("E"))
def test_a_set_has_the_elements_of_the_new_one(old: bytes, new: bytes) -> None:
    def present(data: bytes) -> set[bytes]:
        return {element[3] for element in elements(data) if not element[1] & 1}

    found = after("E", old, new)
    assert present(found) == present(new)
    assert delta("E", found, new) == b""


@pytest.mark.parametrize("compat", Compat)
@given(values("M") | st.just(b""), values("M"))
def test_a_map_has_the_pairs_of_the_new_one(compat: Compat, old: bytes, new: bytes) -> None:
    def held(data: bytes) -> dict[tuple[int, bytes], bytes]:
        return {(key[0], key[3]): value[3] for key, value in pairs(data) if value[3]}

    operand = delta("M", old, new, compat=compat)
    found = merge("M", [old, stamp("M", operand, OWN)])
    assert held(found) == held(new)


@given(values("V") | st.just(b""), values("V"))
def test_a_vector_reaches_the_new_one(old: bytes, new: bytes) -> None:
    found = after("V", old, new)
    assert all(parse_vector(found)[src] >= pro for src, pro in parse_vector(new).items())
    assert delta("V", found, new) == b""


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
