"""Two stores compared: what differs, in which block, and which side lacks it."""

from __future__ import annotations

from culm_models.chotki.compare import Comparison, Side, compare
from culm_models.chotki.ids import GLOBAL_VECTOR_KEY, Id, object_key, vector_key
from culm_models.chotki.log0 import fresh_store
from culm_models.chotki.rdx import delta, merge, parse_text, stamp, write_vector
from culm_models.chotki.rdx.first import write_first

ONE = Id.make(0xA, 2, 1)


def of_field(letter: str, ours: bytes | None, theirs: bytes | None) -> Comparison:
    key = object_key(ONE, letter)
    return compare({} if ours is None else {key: ours}, {} if theirs is None else {key: theirs})


def test_equal_stores_have_no_difference() -> None:
    found = compare(fresh_store(0xA, "one"), fresh_store(0xA, "one"))
    assert found.are_equal
    assert (found.compared, found.left_out, found.blocks) == (9, 0, [])


def test_a_field_that_one_side_has_alone_is_lacked_by_the_other() -> None:
    value = write_first(0, 0xA, b"tide")
    for ours, theirs, lacks in ((None, value, Side.OURS), (value, None, Side.THEIRS)):
        (block,) = of_field("S", ours, theirs).blocks
        assert block.block == Id(0xA, 0)
        (one,) = block.fields
        assert (one.id, one.letter, one.ours, one.theirs, one.lacks) == (ONE, "S", ours, theirs, lacks)


def test_who_has_not_merged_the_newer_value_lacks_it() -> None:
    old, new = write_first(0, 0xA, b"ebb"), write_first(1, 0xB, b"flood")
    assert of_field("S", old, new).blocks[0].fields[0].lacks is Side.OURS
    assert of_field("S", new, old).blocks[0].fields[0].lacks is Side.THEIRS


def test_both_lack_something_where_each_has_a_part_of_the_merge() -> None:
    ours = delta("N", b"", parse_text("N", "3"), src=0xA)
    theirs = delta("N", b"", parse_text("N", "4"), src=0xB)
    (block,) = of_field("N", ours, theirs).blocks
    assert block.fields[0].lacks is Side.BOTH
    assert block.lacking(Side.OURS) == block.lacking(Side.THEIRS) == 1
    assert of_field("N", ours, merge("N", [ours, theirs])).blocks[0].fields[0].lacks is Side.OURS


def test_an_object_of_two_classes_is_wrong_on_both_sides() -> None:
    ours, theirs = Id.make(0xA, 1).zip(), Id.make(0xB, 1).zip()
    assert of_field("O", ours, theirs).blocks[0].fields[0].lacks is Side.BOTH


def test_bytes_that_a_merge_makes_the_same_do_not_differ() -> None:
    ordered = write_vector({1: 16, 2: 16})
    assert of_field("V", ordered, ordered[len(ordered) // 2 :] + ordered[: len(ordered) // 2]).are_equal


def test_lists_are_left_out_and_counted() -> None:
    element = stamp("L", parse_text("E", "{a}"), 0xA)
    found = of_field("L", element, element + element)
    assert found.are_equal
    assert (found.compared, found.left_out) == (0, 1)


def test_vectors_differ_by_source_in_the_whole_and_in_each_block() -> None:
    block = Id.make(0xA, 0x10000)
    ours = {GLOBAL_VECTOR_KEY: write_vector({1: 5, 2: 7}), vector_key(block): write_vector({1: 5})}
    theirs = {GLOBAL_VECTOR_KEY: write_vector({1: 6, 2: 7, 3: 0})}
    found = compare(ours, theirs)
    assert not found.are_equal
    assert (found.vector.ours_lacks, found.vector.theirs_lacks) == ({1: 6, 3: 0}, {})
    (one,) = found.blocks
    assert (one.block, one.vector.ours_lacks, one.vector.theirs_lacks) == (block, {}, {1: 5})
