"""Classes and objects as programs see them: fields by name, renamed and added ones followed."""

from __future__ import annotations

import pytest

from culm_models.chotki.ids import Id, split_object_key
from culm_models.chotki.log0 import COMMON_FIELDS, own_object
from culm_models.chotki.rdx import ClassField, merge, write_class
from culm_topics.chotki.errors import NameUnknown
from culm_topics.chotki.objects import Objects
from culm_topics.chotki.state_file import StateFile
from culm_topics.chotki.values import Term, Unreadable, write_value

PERSON, ANN = Id.make(10, 1), Id.make(10, 2)
NAME, AGE = ClassField(1, "S", "Name"), ClassField(2, "I", "Age")


def at(id: Id, number: int) -> Id:
    return Id(id.src, id.pro + number)


def table(*fields: ClassField) -> StateFile:
    found = StateFile()
    for key, value in COMMON_FIELDS.items():
        found.put(*split_object_key(key), value)
    found.put(PERSON, "C", write_class(fields))
    found.put(ANN, "O", PERSON.zip())
    found.put(at(ANN, 1), "S", write_value("S", "Ann"))
    return found


def test_an_object_has_every_field_of_its_class() -> None:
    found = Objects(table(NAME, AGE)).object(ANN)
    assert found is not None
    assert (found.fields, found.class_id, found.others) == ({"Name": "Ann", "Age": None}, PERSON, {})
    assert found["Name"] == "Ann"


def test_a_renamed_field_keeps_its_values() -> None:
    held = table(NAME)
    entries = write_class([NAME]), write_class([ClassField(1, "S", "Title")])
    held.put(PERSON, "C", merge("C", list(entries)))
    found = Objects(held).object(ANN)
    assert found is not None and found.fields == {"Title": "Ann"}


def test_an_added_field_is_empty_before_it_is_written() -> None:
    held = table(NAME)
    view = Objects(held)
    assert view.object(ANN).fields == {"Name": "Ann"}  # type: ignore[union-attr]
    held.put(PERSON, "C", merge("C", [write_class([NAME]), write_class([AGE])]))
    assert view.object(ANN).fields == {"Name": "Ann", "Age": None}  # type: ignore[union-attr]


def test_fields_that_the_class_does_not_have_are_kept_apart() -> None:
    held = table(AGE)
    found = Objects(held).object(ANN)
    assert found is not None
    assert (found.fields, found.others) == ({"Age": None}, {(1, "S"): "Ann"})


def test_an_object_without_its_class_is_an_object() -> None:
    held = StateFile()
    held.put(ANN, "O", PERSON.zip())
    held.put(at(ANN, 1), "S", b"\xff")
    found = Objects(held).object(ANN)
    assert found is not None
    assert (found.class_, found.class_id) == (None, PERSON)
    assert found.others == {(1, "S"): Unreadable(b"\xff")}


def test_two_fields_of_one_name_are_told_apart() -> None:
    held = table(NAME, ClassField(2, "T", "Name"), ClassField(3, "S", ""))
    found = Objects(held).class_of(PERSON)
    assert found is not None
    assert list(found.fields) == ["Name", "Name@2T", "@3S"]
    assert (found.place("Name"), found.place("Name@2T"), found.place("x")) == ((1, "S"), (2, "T"), None)


def test_a_field_that_would_be_the_object_itself_is_none() -> None:
    held = table(
        ClassField(0, "S", "Zero"), ClassField(-1, "S", "Below"), ClassField(4096, "S", "Beyond"), AGE
    )
    found = Objects(held).class_of(PERSON)
    assert found is not None and list(found.fields) == ["Age"]


def test_a_replica_s_own_object_has_the_class_of_replicas() -> None:
    held = table(NAME)
    for key, value in own_object(12, "north").items():
        held.put(*split_object_key(key), value)
    found = Objects(held).object(Id(12, 0))
    assert found is not None and found.class_id == Id.make(0, 3)
    assert found.fields == {"Name": "north", "Ack": {}, "Addr": ""}


def test_names_go_before_ids_and_ids_are_whole() -> None:
    held = table(NAME)
    names = {Term("person"): PERSON, Term("add-1"): ANN, Term("ann"): ANN}
    held.put(Id.make(0, 2, 1), "M", write_value("M", names))
    view = Objects(held)
    assert [view.resolve(one) for one in ("person", "add-1", "a-2", "A-2", ANN)] == [
        PERSON,
        ANN,
        ANN,
        ANN,
        ANN,
    ]
    assert view.object(ANN).names == ("add-1", "ann")  # type: ignore[union-attr]
    assert next(view.classes()).id == Id.make(0, 1)
    assert view.class_of(PERSON).name == "person"  # type: ignore[union-attr]
    for unknown in ("nobody", "a-2-1", "2", "", "x-y", "a-1z"):
        with pytest.raises(NameUnknown):
            view.resolve(unknown)


def test_objects_come_by_id_and_classes_are_none_of_them() -> None:
    held = table(NAME)
    held.put(Id.make(9, 9), "O", Id.make(0, 3).zip())
    view = Objects(held)
    assert [one.id for one in view.objects()] == [Id(0, 0), Id.make(0, 2), Id.make(9, 9), ANN]
    assert list(view.ids_of_class(PERSON)) == [ANN]
    assert view.object(PERSON) is None and view.class_of(ANN) is None
