"""Packets of a program's changes: what a replica that takes them holds, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from culm_models.chotki.errors import TextMalformed
from culm_models.chotki.ids import Id, split_object_key
from culm_models.chotki.log0 import common_store
from culm_models.chotki.packets.live import read_live, write_live
from culm_models.chotki.packets.packet import parse
from culm_models.chotki.rdx import parse_text
from culm_models.chotki.rdx.first import MAGNITUDE_MAX, write_element, write_first
from culm_models.chotki.replica import Replica
from culm_models.chotki.store import MemoryStore
from culm_models.chotki.tlv import record
from culm_topics.chotki.changes import Change, Edit, EditClass, FromText, Name, NewClass, NewObject, Plus
from culm_topics.chotki.errors import (
    ClassRefused,
    FieldUnknown,
    NameTaken,
    NameUnknown,
    ObjectUnknown,
    RevisionsExhausted,
    ValueRefused,
)
from culm_topics.chotki.objects import Objects
from culm_topics.chotki.packet_maker import OwnPacket, PacketMaker
from culm_topics.chotki.state_file import StateFile
from culm_topics.chotki.values import Pairs, Term
from culm_topics.errors import TopicsError

PERSON = NewClass({"Name": "S", "Age": "I", "Visits": "N", "Debt": "Z", "Tags": "E", "Notes": "M"}, "person")
ANN = NewObject("person", {"Name": "Ann", "Age": 42, "Tags": ["a", "b"]}, "ann")


class Side:
    """A replica that takes the packets of a maker; the maker knows what it holds as of `learn`."""

    def __init__(self, src: int = 10) -> None:
        self.replica = Replica(99, MemoryStore(common_store()))
        self.table = StateFile()
        self.learn()
        self.maker = PacketMaker(src, self.table, name="north")
        self.packets: list[OwnPacket] = []

    def learn(self) -> None:
        for key, value in self.replica.store.values().items():
            if key[0] == ord("O"):
                self.table.put(*split_object_key(key), value)

    def write(self, *changes: Change) -> list[Id | None]:
        made = self.maker.make(changes)
        for change_result in made:
            for packet in change_result.packets:
                self.replica.apply(read_live(parse(packet.packet), packet.packet))
                self.packets.append(packet)
        return [change_result.id for change_result in made]

    def held(self) -> Objects:
        table = StateFile()
        for key, value in self.replica.store.values().items():
            if key[0] == ord("O"):
                table.put(*split_object_key(key), value)
        return Objects(table)

    def fields(self, name: str | Id) -> dict[str, Any]:
        view = self.held()
        object_ = view.object(view.resolve(name))
        assert object_ is not None
        return dict(object_.fields)


def test_a_source_begins_with_its_own_object() -> None:
    side = Side()
    side.write(PERSON)
    assert [packet.id for packet in side.packets[:2]] == [Id.make(10, 0), Id.make(10, 1)]
    assert side.fields(Id(10, 0)) == {"Name": "north", "Ack": {}, "Addr": ""}


def test_objects_are_what_they_were_said_to_be() -> None:
    side = Side()
    cls, ann = side.write(PERSON, ANN)
    view = side.held()
    assert view.names().items() >= {("person", cls), ("ann", ann)}
    expected = {"Name": "Ann", "Age": 42, "Visits": 0, "Debt": 0, "Tags": ("a", "b"), "Notes": {}}
    assert side.fields("ann") == expected


@pytest.mark.parametrize("known", [True, False])
def test_edits_build_on_what_was_written_before(known: bool) -> None:
    side = Side()
    side.write(PERSON, ANN)
    steps: Sequence[tuple[dict[str, Any], dict[str, Any]]] = (
        ({"Name": "Bea", "Age": 1}, {"Name": "Bea", "Age": 1}),
        ({"Name": "Al"}, {"Name": "Al"}),
        ({"Visits": 3, "Debt": -5}, {"Visits": 3, "Debt": -5}),
        ({"Visits": Plus(2), "Debt": Plus(-1)}, {"Visits": 5, "Debt": -6}),
        ({"Tags": ["b", Term("c")]}, {"Tags": ("b", Term("c"))}),
        ({"Notes": {"x": 1, "y": 2}}, {"Notes": {"x": 1, "y": 2}}),
        ({"Notes": {"y": 3}}, {"Notes": {"y": 3}}),
        ({"Notes": {"x": 7, "y": 3}}, {"Notes": {"x": 7, "y": 3}}),
        ({"Age": FromText("-3"), "Tags": FromText("{}")}, {"Age": -3, "Tags": ()}),
    )
    for values, expected in steps:
        if known:
            side.learn()
            side.maker.settle(side.packets[-1].id.pro)
        side.write(Edit("ann", values))
        assert side.fields("ann").items() >= expected.items()


def test_what_says_nothing_makes_no_packet() -> None:
    side = Side()
    side.write(PERSON, ANN)
    before = len(side.packets)
    assert side.write(Edit("ann", {"Age": 42}), Edit("ann", {}), EditClass("person")) == [None] * 3
    assert len(side.packets) == before
    assert PacketMaker(7, StateFile()).make([]) == []


def test_packets_are_numbered_and_build_on_each_other() -> None:
    side = Side()
    side.write(PERSON, ANN)
    side.write(Edit("ann", {"Age": 1}))
    after = 0
    for number, packet in enumerate(side.packets):
        assert (packet.id, packet.after) == (Id.make(10, number), after)
        after = read_live(parse(packet.packet), packet.packet).entry.pro
    assert side.maker.last == after == side.replica.vector()[10]


def test_a_source_goes_on_where_it_stopped() -> None:
    maker = PacketMaker(10, StateFile(), last=Id.make(10, 7, 2).pro, after=Id.make(10, 5).pro)
    (made,) = maker.make([NewClass({"Name": "S"})])
    assert [(packet.id, packet.after) for packet in made.packets] == [(Id.make(10, 8), Id.make(10, 5).pro)]


def test_fields_of_a_class_are_added_and_renamed() -> None:
    side = Side()
    side.write(PERSON, ANN, EditClass("person", {"Mail": "S"}, {"Name": "Title"}))
    side.write(Edit("ann", {"Mail": "a@b", "Title": "Dr"}))
    fields = side.fields("ann")
    assert list(fields) == ["Title", "Age", "Visits", "Debt", "Tags", "Notes", "Mail"]
    assert (fields["Title"], fields["Mail"], fields["Age"]) == ("Dr", "a@b", 42)


def test_a_text_may_name_what_it_refers_to() -> None:
    side = Side()
    _, ann = side.write(NewClass({"Friend": "R", "Note": "S"}, "friend"), NewObject("friend", {}, "ann"))
    side.write(NewObject("friend", {"Friend": FromText("ann"), "Note": FromText("hi you")}, "bea"))
    assert side.fields("bea") == {"Friend": ann, "Note": "hi you"}
    side.write(Edit("bea", {"Friend": FromText("a-1"), "Note": FromText('"\\u0041"')}))
    assert side.fields("bea") == {"Friend": Id.make(10, 1), "Note": "A"}
    with pytest.raises(TextMalformed):
        side.write(Edit("bea", {"Friend": FromText("nobody")}))


def test_fields_behind_a_hole_are_written_with_the_object() -> None:
    side = Side()
    (cls,) = side.write(NewClass({"A": "S", "B": "S"}))
    assert cls is not None
    # Another replica gave the class a field far behind, and a second type for the first.
    far = b"t\x09" + b"\x31\x12" + b"S\0" + b"Far.."
    other = b"t\x08" + b"\x31\x02" + b"I\0" + b"Num."
    replica = Replica(11, side.replica.store)
    replica.commit("C", cls, far + other, 0)
    side.learn()
    (id,) = side.write(NewObject(cls, {"B": "b", "Far..": "f", "Num.": 4}))
    assert id is not None
    fields = side.fields(id)
    assert (fields["B"], fields["Far.."], fields["Num."]) == ("b", "f", 4)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (NewClass({}), ClassRefused),
        (NewClass({"Name": "X"}), ClassRefused),
        (NewClass({"Name": "C"}), ClassRefused),
        (NewClass({"_ref": "S"}), ClassRefused),
        (NewClass({"": "S"}), ClassRefused),
        (NewClass({"Name": "S"}, "person"), NameTaken),
        (NewObject("person", {}, "ann"), NameTaken),
        (NewObject("nothing", {}), NameUnknown),
        (NewObject("ann", {}), ObjectUnknown),
        (NewObject("a-77", {}), ObjectUnknown),
        (NewObject("person", {"Nme": "x"}), FieldUnknown),
        (NewObject("person", {"Age": "x"}), ValueRefused),
        (NewObject("person", {"Age": FromText("x")}), TextMalformed),
        (NewObject("person", {"Age": Plus(1)}), ValueRefused),
        (NewObject("person", {"Name": "x" * 4_000_000}), ValueRefused),
        (Edit("person", {"Name": "x"}), ObjectUnknown),
        (Edit("ann", {"Visits": -1}), ValueRefused),
        (EditClass("person", rename={"Name": "Alias"}), ClassRefused),
        (EditClass("person", rename={"Nme": "Zz"}), FieldUnknown),
        (EditClass("person", rename={"Age": "Name"}), ClassRefused),
        (EditClass("person", {"Age": "S"}), ClassRefused),
        (Name("x", "a-77"), ObjectUnknown),
    ],
)
def test_what_cannot_be_said_is_refused_and_leaves_nothing(change: Change, error: type[Exception]) -> None:
    side = Side()
    side.write(PERSON, ANN)
    last = side.maker.last
    with pytest.raises(error):
        side.maker.make([Edit("ann", {"Age": 7}), change])
    assert side.maker.last == last
    side.write(Edit("ann", {"Visits": 1}))
    assert side.fields("ann")["Age"] == 42


def test_an_n_only_grows() -> None:
    side = Side()
    side.write(PERSON, ANN, Edit("ann", {"Visits": 4}))
    with pytest.raises(ValueRefused, match="only grows"):
        side.write(Edit("ann", {"Visits": 3}))


def test_a_name_can_be_given_anew() -> None:
    side = Side()
    side.write(PERSON, ANN)
    (other,) = side.write(NewObject("person", {}))
    assert other is not None
    side.write(Name("ann", other))
    assert side.held().names()["ann"] == other


def test_refusals_have_codes() -> None:
    for error in (ClassRefused, FieldUnknown, NameTaken, NameUnknown, ObjectUnknown, ValueRefused):
        assert issubclass(error, TopicsError) and error.code.startswith("chotki.")


HIGHEST = MAGNITUDE_MAX << 1


@pytest.mark.parametrize(
    ("name", "present", "value"),
    [
        ("Name", record("S", write_first(HIGHEST, 7, b"Ann")), "Zoe"),
        ("Age", record("I", write_first(HIGHEST, 7, b"\x02")), 43),
        ("Debt", record("Z", write_element(ord("I"), HIGHEST, 10, b"\x02")), 5),
        ("Tags", record("E", write_element(ord("S"), HIGHEST, 7, b"a")), []),
        (
            "Notes",
            record("M", write_element(ord("S"), HIGHEST, 7, b"k"), write_element(73, HIGHEST, 7, b"\2")),
            {},
        ),
    ],
)
def test_what_has_the_highest_revision_cannot_be_changed(name: str, present: bytes, value: Any) -> None:
    side = Side()
    side.write(PERSON, ANN)
    number = list(PERSON.fields).index(name) + 1
    packet = write_live("E", Id.make(7, 1), Id.make(10, 3), record("f", bytes([number])) + present)
    side.replica.apply(read_live(parse(packet), packet))
    side.learn()
    before = side.replica.store.values()
    with pytest.raises(RevisionsExhausted) as refused:
        side.write(Edit("ann", {name: value}))
    assert refused.value.code == "chotki.revision" and name in str(refused.value)
    assert side.replica.store.values() == before
    # What is so already, and another field, can be written.
    known = side.held().object(Id.make(10, 3))
    assert known is not None
    assert side.write(Edit("ann", {name: known[name]})) == [None]
    assert side.write(Edit("ann", {"Visits": 3})) != [None]


def test_an_object_that_is_read_and_written_back_makes_no_packet() -> None:
    side = Side()
    side.write(PERSON, ANN)
    notes = (
        parse_text("M", '{1:10,1.0:50,"1":20,one:30,"one":40}')
        + record("S", b"0", b"\xff")
        + record("S", b"0b")
    )
    body = record("f", b"\x06") + record("M", notes) + record("f", b"\x01") + record("S", b"2\x02\x07\xff")
    packet = write_live("E", Id.make(7, 1), Id.make(10, 3), body)
    side.replica.apply(read_live(parse(packet), packet))
    side.learn()
    ann = side.held().object(Id.make(10, 3))
    assert ann is not None and ann["Name"] == "\udcff"
    assert side.write(Edit("ann", ann.fields)) == [None]
    assert isinstance(ann["Notes"], Pairs)
    changed = ann["Notes"].copy()
    del changed[1.0]
    [edit] = side.write(Edit("ann", {**ann.fields, "Notes": changed}))
    after = side.held().object(Id.make(10, 3))
    assert edit is not None and after is not None
    assert isinstance(after["Notes"], Pairs)
    assert after["Notes"] == changed and after["Notes"].removed == (1.0,)
    assert {**after.fields, "Notes": 0} == {**ann.fields, "Notes": 0}
