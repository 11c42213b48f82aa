"""Stores: how two differ, their text as the Go replica has it, and values of hash-indexed fields."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from culm_models.chotki.compare import Comparison, Side, compare
from culm_models.chotki.dump import dump
from culm_models.chotki.ids import GLOBAL_VECTOR_KEY, Id, object_key, vector_key
from culm_models.chotki.log0 import fresh_store
from culm_models.chotki.rdx import delta, merge, parse_text, stamp, write_vector
from culm_models.chotki.rdx.classes import HASH_INDEX, ClassField, write_class
from culm_models.chotki.rdx.first import write_first
from culm_models.chotki.unique_values import Holder, UniqueValues

ONE = Id.make(0xA, 2, 1)


def of_field(letter: str, ours: bytes | None, theirs: bytes | None) -> Comparison:
    key = object_key(ONE, letter)
    return compare({} if ours is None else {key: ours}, {} if theirs is None else {key: theirs})


def test_equal_stores_have_no_difference() -> None:
    comparison = compare(fresh_store(0xA, "one"), fresh_store(0xA, "one"))
    assert comparison.are_equal
    assert (comparison.compared, comparison.left_out, comparison.blocks) == (9, 0, [])


def test_a_field_that_one_side_has_alone_is_lacked_by_the_other() -> None:
    value = write_first(0, 0xA, b"tide")
    for ours, theirs, lacks in ((None, value, Side.OURS), (value, None, Side.THEIRS)):
        (block,) = of_field("S", ours, theirs).blocks
        assert block.block == Id(0xA, 0)
        (field,) = block.fields
        assert (field.id, field.letter, field.ours, field.theirs, field.missing_in) == (
            ONE,
            "S",
            ours,
            theirs,
            lacks,
        )


def test_who_has_not_merged_the_newer_value_lacks_it() -> None:
    old, new = write_first(0, 0xA, b"ebb"), write_first(1, 0xB, b"flood")
    assert of_field("S", old, new).blocks[0].fields[0].missing_in is Side.OURS
    assert of_field("S", new, old).blocks[0].fields[0].missing_in is Side.THEIRS


def test_both_lack_something_where_each_has_a_part_of_the_merge() -> None:
    ours = delta("N", b"", parse_text("N", "3"), src=0xA)
    theirs = delta("N", b"", parse_text("N", "4"), src=0xB)
    (block,) = of_field("N", ours, theirs).blocks
    assert block.fields[0].missing_in is Side.BOTH
    assert block.missing_count(Side.OURS) == block.missing_count(Side.THEIRS) == 1
    assert of_field("N", ours, merge("N", [ours, theirs])).blocks[0].fields[0].missing_in is Side.OURS


def test_an_object_of_two_classes_is_wrong_on_both_sides() -> None:
    ours, theirs = Id.make(0xA, 1).zip(), Id.make(0xB, 1).zip()
    assert of_field("O", ours, theirs).blocks[0].fields[0].missing_in is Side.BOTH


def test_bytes_that_a_merge_makes_the_same_do_not_differ() -> None:
    ordered = write_vector({1: 16, 2: 16})
    assert of_field("V", ordered, ordered[len(ordered) // 2 :] + ordered[: len(ordered) // 2]).are_equal


def test_lists_are_left_out_and_counted() -> None:
    element = stamp("L", parse_text("E", "{a}"), 0xA)
    comparison = of_field("L", element, element + element)
    assert comparison.are_equal
    assert (comparison.compared, comparison.left_out) == (0, 1)


def test_vectors_differ_by_source_in_the_whole_and_in_each_block() -> None:
    block = Id.make(0xA, 0x10000)
    ours = {GLOBAL_VECTOR_KEY: write_vector({1: 5, 2: 7}), vector_key(block): write_vector({1: 5})}
    theirs = {GLOBAL_VECTOR_KEY: write_vector({1: 6, 2: 7, 3: 0})}
    comparison = compare(ours, theirs)
    assert not comparison.are_equal
    assert (comparison.vector.missing_in_ours, comparison.vector.missing_in_theirs) == ({1: 6, 3: 0}, {})
    (block_difference,) = comparison.blocks
    assert (
        block_difference.block,
        block_difference.vector.missing_in_ours,
        block_difference.vector.missing_in_theirs,
    ) == (block, {}, {1: 5})


# Fresh stores, and stores as text, as the Go replica has them.


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


# Values of hash-indexed fields that several objects have (reference 10, 4).


PERSON = Id.make(0xA, 1)
MAIL = 2
CLASS = write_class([ClassField(1, "S", "Name"), ClassField(MAIL, "S", "Mail", HASH_INDEX)])
ANN, BEN, CAT = (Id.make(0xA, seq) for seq in (2, 3, 4))


def at(object_id: Id, number: int = MAIL) -> Id:
    return Id(object_id.src, object_id.pro + number)


def indexed(limit: int = 100) -> UniqueValues:
    values = UniqueValues(limit)
    assert values.learn_class(PERSON, CLASS)
    return values


def mail(text: str, writer: int = 0xA, rev: int = 0) -> bytes:
    return write_first(2 * rev, writer, text.encode())


def test_two_objects_with_one_value_are_told_of_once_and_listed_until_one_is_changed() -> None:
    values = indexed()
    assert values.take(PERSON, at(ANN), "S", mail("x@y")) is None
    duplicate = values.take(PERSON, at(BEN), "S", mail("x@y", 0xB, 3))
    assert duplicate is not None
    assert (duplicate.class_id, duplicate.offset) == (PERSON, MAIL)
    assert duplicate.holders == (Holder(ANN, 0xA), Holder(BEN, 0xB))
    assert values.take(PERSON, at(BEN), "S", mail("x@y", 0xB, 4)) is None
    assert values.duplicates() == [duplicate]
    assert values.take(PERSON, at(ANN), "S", mail("other")) is None
    assert values.duplicates() == []
    assert values.take(PERSON, at(CAT), "S", mail("x@y")) is not None


def test_an_empty_value_is_a_value() -> None:
    values = indexed()
    values.take(PERSON, at(ANN), "S", mail(""))
    assert values.take(PERSON, at(BEN), "S", mail("")) is not None


def test_other_fields_types_and_classes_are_passed_over() -> None:
    values = indexed()
    for person in (ANN, BEN):
        assert values.take(PERSON, at(person, 1), "S", mail("same")) is None
        assert values.take(PERSON, at(person), "N", b"") is None
        assert values.take(Id.make(0xB, 1), at(person), "S", mail("same")) is None
    assert len(values) == 0


def test_a_class_is_looked_at_again_when_it_has_more_such_fields() -> None:
    values = indexed()
    assert not values.learn_class(PERSON, CLASS)
    more = write_class([ClassField(1, "S", "Name", HASH_INDEX)])
    assert values.learn_class(PERSON, more)
    assert values.classes[PERSON] == {1, MAIL}
    assert not values.learn_class(Id.make(0xB, 9), write_class([ClassField(1, "S", "Name")]))
    assert not values.learn_class(Id.make(0xB, 9), b"!")


def test_values_beyond_the_bound_are_not_looked_at() -> None:
    values = indexed(2)
    values.take(PERSON, at(ANN), "S", mail("a"))
    values.take(PERSON, at(BEN), "S", mail("b"))
    assert values.take(PERSON, at(CAT), "S", mail("a")) is None
    assert values.is_full and len(values) == 2
    # What is known is followed all the same.
    assert values.take(PERSON, at(BEN), "S", mail("a")) is not None
