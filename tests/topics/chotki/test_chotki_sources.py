"""Whose a source is, by the order of the topic alone."""

from __future__ import annotations

import pytest

from culm_topics.chotki.errors import SourceRetired, SourceTaken
from culm_topics.chotki.records import SourceRecord, SourceState, source_key
from culm_topics.chotki.sources import FREE, SourceTable, allocate
from culm_topics.readers.batch import TopicMessage

ONE, TWO = b"1" * 16, b"2" * 16


def table(*records: tuple[int, str, bytes] | tuple[int, str, bytes, SourceState]) -> SourceTable:
    found = SourceTable()
    for offset, (src, owner, run, *state) in enumerate(records):
        value = SourceRecord(owner, run, state[0] if state else "allocated", offset).encode()
        found.take(TopicMessage(source_key(src), value, 0, offset, 0))
    return found


def test_of_two_claims_the_first_holds() -> None:
    assert table((7, "a", ONE), (7, "a", TWO)).holders[7].run == ONE
    assert table((7, "a", ONE), (7, "b", TWO)).holders[7].owner == "a"


def test_a_source_that_was_freed_can_be_claimed() -> None:
    assert table((7, "a", ONE), (7, "a", FREE), (7, "a", TWO)).holders[7].run == TWO


def test_the_holder_may_say_itself_again() -> None:
    assert table((7, "a", ONE), (7, "a", TWO), (7, "a", ONE)).holders[7].run == ONE


def test_an_owner_goes_on_with_its_source() -> None:
    held = table((7, "a", FREE), (9, "b", FREE), (3, "a", FREE, "retired"))
    assert held.choose(None, "a", (), take_over=False) == 7
    assert held.choose(9, "b", {9}, take_over=False) == 9


def test_an_owner_without_a_source_gets_a_free_one() -> None:
    held = table((7, "a", FREE))
    found = held.choose(None, "b", {8}, take_over=False)
    assert found not in (7, 8) and 0x10000 <= found <= 0xFFFFF
    assert held.choose(8, "b", (), take_over=False) == 8


def test_a_source_in_use_is_refused_unless_it_is_taken_over() -> None:
    held = table((7, "a", ONE))
    with pytest.raises(SourceTaken, match="has a writer"):
        held.choose(7, "a", (), take_over=False)
    with pytest.raises(SourceTaken, match="has a writer"):
        held.choose(None, "a", (), take_over=False)
    assert held.choose(None, "a", (), take_over=True) == 7


@pytest.mark.parametrize("take_over", [True, False])
def test_a_source_of_others_is_refused(take_over: bool) -> None:
    held = table((7, "a", FREE), (8, "a", FREE, "retired"))
    with pytest.raises(SourceTaken, match="belongs to"):
        held.choose(7, "b", (), take_over=take_over)
    with pytest.raises(SourceTaken, match="in use by a replica"):
        held.choose(5, "b", {5}, take_over=take_over)
    with pytest.raises(SourceTaken, match="system"):
        held.choose(0, "b", (), take_over=take_over)
    with pytest.raises(SourceRetired):
        held.choose(8, "a", (), take_over=take_over)


def test_what_was_retired_stays_so_whatever_was_on_its_way() -> None:
    held = table((7, "a", ONE), (7, "a", FREE, "retired"), (7, "a", TWO), (7, "b", FREE))
    assert (held.holders[7].state, held.holders[7].run) == ("retired", FREE)
    with pytest.raises(SourceRetired):
        held.choose(7, "a", (), take_over=True)


def test_records_that_are_none_are_passed_over() -> None:
    held = table()
    held.take(TopicMessage(b"x", b"", 0, 0, 0))
    held.take(TopicMessage(source_key(1), b"", 0, 1, 0))
    assert (held.holders, held.passed_over.records) == ({}, 2)


def test_what_is_allocated_is_not_taken() -> None:
    taken = set(range(0x10000, 0xFFFFF))
    assert allocate(taken) == 0xFFFFF
