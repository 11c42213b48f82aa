"""Global names and sources: found in both directions, and whose a source is."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.chotki.ids import Id, split_object_key
from culm_models.chotki.log0 import COMMON_FIELDS
from culm_models.chotki.packets.live import read_live
from culm_models.chotki.packets.packet import parse
from culm_models.chotki.rdx import merge
from culm_models.chotki.rdx.first import write_element
from culm_topics.chotki.changes import Name, NewClass, NewObject
from culm_topics.chotki.errors import SourceRetired, SourceTaken, ValueRefused
from culm_topics.chotki.global_names import GlobalNames
from culm_topics.chotki.objects import NAMES_OBJECT, NAMES_PLACE, Place
from culm_topics.chotki.packet_maker import OwnPacket, PacketMaker
from culm_topics.chotki.records import SourceRecord, SourceState, source_key
from culm_topics.chotki.sources import FREE, SourceTable, allocate
from culm_topics.chotki.state_file import StateFile
from culm_topics.chotki.values import Pairs, Term, read_value, write_value
from culm_topics.readers.batch import TopicMessage

NAMES = st.sampled_from(["ann", "bea", "Ann", "", "é", "a b"])
IDS = st.builds(Id.make, st.integers(1, 3), st.integers(1, 3))


def common() -> StateFile:
    state = StateFile()
    for key, value in COMMON_FIELDS.items():
        state.put(*split_object_key(key), value)
    return state


def stamped(src: int, name: str, id: Id, raw: int) -> bytes:
    return write_element(ord("T"), raw, src, name.encode()) + write_element(ord("R"), raw, src, id.zip())


def as_read(value: bytes) -> dict[str, Id]:
    pairs = read_value("M", value)
    assert isinstance(pairs, Pairs)
    return {str(name): id for name, id in pairs.items() if isinstance(id, Id)}


@given(st.lists(st.tuples(st.integers(1, 2), NAMES, IDS), max_size=20), st.lists(st.integers(0, 20)))
def test_names_taken_pair_by_pair_are_those_of_the_merged_map(
    given_: list[tuple[int, str, Id]], settled: list[int]
) -> None:
    """Two sources give names in turn, each knowing all before; the map below has some of it at times."""
    value, below = b"", GlobalNames()
    names = GlobalNames(below=below)
    for number, (src, name, id) in enumerate(given_):
        operand = names.operand(name, id)
        if operand:
            raw = 2 * (operand_revision(operand))
            operand = stamped(src, name, id, raw)
        names.merge(operand)
        value = merge("M", [value, operand])
        if number in settled:
            names.below = GlobalNames(value)
        expected = as_read(value)
        assert names.all() == expected
        assert {name: names.id_of(name) for name in expected} == expected
        for named in set(expected.values()):
            assert names.names_of(named) == tuple(
                sorted(key for key, has in expected.items() if has == named)
            )


def operand_revision(operand: bytes) -> int:
    stamps = GlobalNames(operand)._pairs.values()
    return max((pair.raw for pair in stamps), default=0) >> 1


def test_a_term_goes_before_a_string_and_what_was_removed_is_no_name() -> None:
    first, second = Id.make(10, 1), Id.make(10, 2)
    names = GlobalNames(write_value("M", {"ann": first, Term("ann"): second, "bea": first, Term("cy"): 7}))
    assert names.all() == {"ann": second, "bea": first}
    assert (names.names_of(first), names.names_of(second)) == (("bea",), ("ann",))
    names.merge(write_element(ord("T"), 2, 0, b"ann") + write_element(ord("R"), 2, 0, b""))
    assert names.id_of("ann") == first
    again = names.operand("ann", second)
    names.merge(again)
    assert names.id_of("ann") == second, "a name that was removed can be given again"
    assert names.operand("ann", second) == b""


class NoWholeMap(StateFile):
    """A table that gives names, and not the map that they stand in."""

    held: GlobalNames

    def fields(self, id: Id) -> Mapping[Place, bytes]:
        assert id != NAMES_OBJECT
        return super().fields(id)

    def names(self) -> GlobalNames:
        return self.held


def test_an_edit_looks_at_its_own_name_alone() -> None:
    table = NoWholeMap()
    table.held = GlobalNames(write_value("M", {Term(f"n{number}"): Id.make(9, 1) for number in range(1_000)}))
    maker = PacketMaker(10, table)
    made = maker.make([NewClass({"Name": "S"}, "person"), NewObject("person", {}, "ann"), Name("bea", "ann")])
    sizes = [len(packet.packet) for edit in made for packet in edit.packets if packet.packet[:1] == b"e"]
    assert len(sizes) == 3 and max(sizes) < 64
    assert maker.objects.named("bea") == made[1].id == maker.objects.named("ann")


def test_names_hold_before_and_after_an_epoch_has_them() -> None:
    table = common()
    maker = PacketMaker(10, table)
    packets: list[OwnPacket] = []
    for made in maker.make([NewClass({"Name": "S"}, "person"), NewObject("person", {}, "ann")]):
        packets += made.packets
    for packet in packets:
        live = read_live(parse(packet.packet), packet.packet)
        for key, operand in live.writes:
            at, letter = split_object_key(key)
            before = table.fields(Id(at.src, at.pro - at.off)).get((at.off, letter))
            table.put(at, letter, merge(letter, [operand] if before is None else [before, operand]))
        maker.settle(live.entry.pro)
        assert maker.objects.named("ann") == Id.make(10, 3)
    assert maker.waiting == 0
    assert maker.objects.names() == as_read(table.fields(NAMES_OBJECT)[NAMES_PLACE])


def test_half_a_character_is_no_name() -> None:
    maker = PacketMaker(10, common())
    with pytest.raises(ValueRefused):
        maker.make([NewClass({"Name": "S"}, "half \ud800")])


# Whose a source is, by the order of the topic alone.


ONE, TWO = b"1" * 16, b"2" * 16


def table(*records: tuple[int, str, bytes] | tuple[int, str, bytes, SourceState]) -> SourceTable:
    sources = SourceTable()
    for offset, (src, owner, run, *state) in enumerate(records):
        value = SourceRecord(owner, run, state[0] if state else "allocated", offset).encode()
        sources.take(TopicMessage(source_key(src), value, 0, offset, 0))
    return sources


def test_of_two_claims_the_first_holds() -> None:
    assert table((7, "a", ONE), (7, "a", TWO)).holders[7].run == ONE
    assert table((7, "a", ONE), (7, "b", TWO)).holders[7].owner == "a"


def test_a_source_that_was_freed_can_be_claimed() -> None:
    assert table((7, "a", ONE), (7, "a", FREE), (7, "a", TWO)).holders[7].run == TWO


def test_the_holder_may_say_itself_again() -> None:
    assert table((7, "a", ONE), (7, "a", TWO), (7, "a", ONE)).holders[7].run == ONE


def test_an_owner_goes_on_with_its_source() -> None:
    sources = table((7, "a", FREE), (9, "b", FREE), (3, "a", FREE, "retired"))
    assert sources.choose(None, "a", (), take_over=False) == 7
    assert sources.choose(9, "b", {9}, take_over=False) == 9


def test_an_owner_without_a_source_gets_a_free_one() -> None:
    sources = table((7, "a", FREE))
    chosen = sources.choose(None, "b", {8}, take_over=False)
    assert chosen not in (7, 8) and 0x10000 <= chosen <= 0xFFFFF
    assert sources.choose(8, "b", (), take_over=False) == 8


def test_a_source_in_use_is_refused_unless_it_is_taken_over() -> None:
    sources = table((7, "a", ONE))
    with pytest.raises(SourceTaken, match="has a writer"):
        sources.choose(7, "a", (), take_over=False)
    with pytest.raises(SourceTaken, match="has a writer"):
        sources.choose(None, "a", (), take_over=False)
    assert sources.choose(None, "a", (), take_over=True) == 7


@pytest.mark.parametrize("take_over", [True, False])
def test_a_source_of_others_is_refused(take_over: bool) -> None:
    sources = table((7, "a", FREE), (8, "a", FREE, "retired"))
    with pytest.raises(SourceTaken, match="belongs to"):
        sources.choose(7, "b", (), take_over=take_over)
    with pytest.raises(SourceTaken, match="in use by a replica"):
        sources.choose(5, "b", {5}, take_over=take_over)
    with pytest.raises(SourceTaken, match="system"):
        sources.choose(0, "b", (), take_over=take_over)
    with pytest.raises(SourceRetired):
        sources.choose(8, "a", (), take_over=take_over)


def test_what_was_retired_stays_so_whatever_was_on_its_way() -> None:
    sources = table((7, "a", ONE), (7, "a", FREE, "retired"), (7, "a", TWO), (7, "b", FREE))
    assert (sources.holders[7].state, sources.holders[7].run) == ("retired", FREE)
    with pytest.raises(SourceRetired):
        sources.choose(7, "a", (), take_over=True)


def test_records_that_are_none_are_passed_over() -> None:
    sources = table()
    sources.take(TopicMessage(b"x", b"", 0, 0, 0))
    sources.take(TopicMessage(source_key(1), b"", 0, 1, 0))
    assert (sources.holders, sources.passed_over.records) == ({}, 2)


def test_what_is_allocated_is_not_taken() -> None:
    taken = set(range(0x10000, 0xFFFFF))
    assert allocate(taken) == 0xFFFFF
