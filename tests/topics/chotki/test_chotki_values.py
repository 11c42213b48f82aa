"""Values of fields as Python values, and back."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.chotki.ids import Id, split_object_key
from culm_models.chotki.log0 import COMMON_FIELDS, own_object
from culm_models.chotki.rdx import (
    ClassField,
    check_value,
    delta,
    merge,
    parse_text,
    stamp,
    write_class,
    write_vector,
)
from culm_models.chotki.rdx.first import LOWEST_RAW, elements, pairs, write_stamp
from culm_models.chotki.tlv import record
from culm_topics.chotki.errors import NameUnknown, ValueRefused
from culm_topics.chotki.objects import Objects
from culm_topics.chotki.state_file import StateFile
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
    elements = read_value("E", written)
    assert isinstance(elements, Elements)
    assert elements.removed == ()
    assert write_value("E", elements) == written


@given(st.dictionaries(st.builds(Term, texts), st.integers(1, 1000) | texts.filter(bool)))
def test_a_map_keeps_its_pairs(values: dict[Any, Any]) -> None:
    written = write_value("M", values)
    check_value("M", written)
    assert read_value("M", written) == values


@st.composite
def stored(draw: st.DrawFn, letter: str) -> bytes:
    """A value as a replica may hold it: each thing once, also in bytes that nobody should write."""
    stamps = st.builds(write_stamp, st.integers(0, 9) | st.just(LOWEST_RAW - 1), st.integers(0, 3))
    data = {
        "F": st.sampled_from(
            [b"", b"\x01", b"\xfc\x0f", b"\xfc\x0f\0", b"\x80\0\0\0\0\0\xf8\x7f", b"\xff" * 8]
        ),
        "I": st.sampled_from([b"", b"\x02", b"\x02\0", b"\x01", b"\xff" * 8]),
        "R": st.sampled_from([b"", b"\x0a\x03", b"\x0a\0\x03", b"\x0a\0\0\x10", b"\xff" * 16]),
        "S": st.sampled_from([b"", b"1", b"\x02", b"\xff", b"a\xc3", "é".encode()]),
        "T": st.sampled_from([b"", b"1", b"one", b"\xff"]),
    }
    if letter in "FIRST":
        return draw(stamps) + draw(data[letter])
    if letter == "N":
        return b"".join(record("T", stamp) for stamp in draw(st.lists(stamps, max_size=4)))
    if letter == "V":
        return write_vector(draw(st.dictionaries(st.integers(0, 9), st.integers(0, 99), max_size=4)))
    letters = st.just("I") if letter == "Z" else st.sampled_from("FIRST")
    parts = letters.flatmap(lambda kind: st.tuples(st.just(kind), stamps, data[kind]))
    if letter == "M":
        drawn_pairs = draw(st.lists(st.tuples(parts, parts), max_size=4, unique_by=lambda pair: pair[0][::2]))
        return b"".join(record(*part) for pair in drawn_pairs for part in pair)
    once = (lambda part: part[2]) if letter == "E" else None
    return b"".join(record(*part) for part in draw(st.lists(parts, max_size=4, unique_by=once)))


@pytest.mark.parametrize("letter", "FIRSTNZEMLV")
@given(data=st.data())
def test_reading_and_writing_back_changes_nothing(letter: str, data: st.DataObject) -> None:
    value = data.draw(stored(letter))
    read = read_value(letter, value)
    assert not isinstance(read, Unreadable)
    assert delta(letter, value, write_value(letter, read, value), src=7) == b""
    if isinstance(read, Pairs):
        assert delta(letter, value, write_value(letter, read.copy(), value), src=7) == b""


@given(stored("E"), st.integers(0, 3))
def test_to_remove_an_element_leaves_all_others_as_they_are(value: bytes, number: int) -> None:
    read = read_value("E", value)
    assert isinstance(read, Elements)
    gone = read[number % len(read)] if read else None
    rest = [element for element in read if (type(element), repr(element)) != (type(gone), repr(gone))]
    operand = delta("E", value, write_value("E", rest, value))
    known = {data: _read(code, data) for code, _, _, data, _ in elements(value)}
    for _, raw, _, data, _ in elements(operand):
        assert raw & 1 and (type(known[data]), repr(known[data])) == (type(gone), repr(gone))


@given(stored("M"), st.integers(0, 3))
def test_to_remove_a_key_leaves_all_others_as_they_are(value: bytes, number: int) -> None:
    read = read_value("M", value)
    assert isinstance(read, Pairs)
    rest, keys = read.copy(), list(read)
    if not keys:
        return
    gone = keys[number % len(keys)]
    del rest[gone]
    operand = delta("M", value, write_value("M", rest, value))
    removed = [_read(part[0], part[3]) for part, _ in pairs(operand)]
    assert {(type(key), repr(key)) for key in removed} <= {(type(gone), repr(gone))}
    assert all(not part[3] for _, part in pairs(operand))


def _read(code: int, data: bytes) -> object:
    return read_value(chr(code), b"0" + data)


def test_keys_keep_their_types_in_python_and_in_json() -> None:
    value = parse_text("M", '{1:10,1.0:50,"1":20,one:30,"one":40}')
    read = read_value("M", value)
    assert isinstance(read, Pairs) and len(read) == 5
    assert [read[key] for key in (1, 1.0, "1", Term("one"), "one")] == [10, 50, 20, 30, 40]
    assert sorted(plain_value(read), key=repr) == sorted(
        [[1, 10], [1.0, 50], ["1", 20], [{"T": "one"}, 30], ["one", 40]], key=repr
    )
    changed = read.copy()
    changed[1] = 11
    del changed["one"]
    operand = delta("M", value, write_value("M", changed, value))
    assert [(key[0], part[3]) for key, part in pairs(operand)] == [(ord("I"), b"\x16"), (ord("S"), b"")]
    assert plain_value(Pairs([(1, 2), ("a", Id.make(1, 1))])) == {"1": 2, "a": "1-1"}
    assert read != {1: 10} and read == Pairs(read) and None not in read


def test_text_that_is_not_utf8_survives_and_is_told_apart_in_json() -> None:
    value = write_value("S", "a\udcff")
    assert (value, read_value("S", value)) == (b"0a\xff", "a\udcff")
    assert plain_value("a\udcff") == {"bytes": "61ff"}
    assert plain_value(Pairs([("\udcff", 1), (Term("\udcff"), 2)])) == [
        [{"bytes": "ff"}, 1],
        [{"T": {"bytes": "ff"}}, 2],
    ]
    json.dumps(plain_value(Elements(["\udcff"])), ensure_ascii=False).encode()


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
    assert after == {"b": 2} and after.removed == ("a",)


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


# Classes and objects as programs see them: fields by name, renamed and added ones followed.


PERSON, ANN = Id.make(10, 1), Id.make(10, 2)
NAME, AGE = ClassField(1, "S", "Name"), ClassField(2, "I", "Age")


def at(id: Id, number: int) -> Id:
    return Id(id.src, id.pro + number)


def table(*fields: ClassField) -> StateFile:
    state = StateFile()
    for key, value in COMMON_FIELDS.items():
        state.put(*split_object_key(key), value)
    state.put(PERSON, "C", write_class(fields))
    state.put(ANN, "O", PERSON.zip())
    state.put(at(ANN, 1), "S", write_value("S", "Ann"))
    return state


def test_an_object_has_every_field_of_its_class() -> None:
    ann = Objects(table(NAME, AGE)).object(ANN)
    assert ann is not None
    assert (ann.fields, ann.class_id, ann.others) == ({"Name": "Ann", "Age": None}, PERSON, {})
    assert ann["Name"] == "Ann"


def test_a_renamed_field_keeps_its_values() -> None:
    state = table(NAME)
    entries = write_class([NAME]), write_class([ClassField(1, "S", "Title")])
    state.put(PERSON, "C", merge("C", list(entries)))
    ann = Objects(state).object(ANN)
    assert ann is not None and ann.fields == {"Title": "Ann"}


def test_an_added_field_is_empty_before_it_is_written() -> None:
    state = table(NAME)
    view = Objects(state)
    assert view.object(ANN).fields == {"Name": "Ann"}  # type: ignore[union-attr]
    state.put(PERSON, "C", merge("C", [write_class([NAME]), write_class([AGE])]))
    assert view.object(ANN).fields == {"Name": "Ann", "Age": None}  # type: ignore[union-attr]


def test_fields_that_the_class_does_not_have_are_kept_apart() -> None:
    state = table(AGE)
    ann = Objects(state).object(ANN)
    assert ann is not None
    assert (ann.fields, ann.others) == ({"Age": None}, {(1, "S"): "Ann"})


def test_an_object_without_its_class_is_an_object() -> None:
    state = StateFile()
    state.put(ANN, "O", PERSON.zip())
    state.put(at(ANN, 1), "S", b"\xff")
    ann = Objects(state).object(ANN)
    assert ann is not None
    assert (ann.class_, ann.class_id) == (None, PERSON)
    assert ann.others == {(1, "S"): Unreadable(b"\xff")}


def test_two_fields_of_one_name_are_told_apart() -> None:
    state = table(NAME, ClassField(2, "T", "Name"), ClassField(3, "S", ""))
    class_ = Objects(state).class_of(PERSON)
    assert class_ is not None
    assert list(class_.fields) == ["Name", "Name@2T", "@3S"]
    assert (class_.place("Name"), class_.place("Name@2T"), class_.place("x")) == ((1, "S"), (2, "T"), None)


def test_a_field_that_would_be_the_object_itself_is_none() -> None:
    state = table(
        ClassField(0, "S", "Zero"), ClassField(-1, "S", "Below"), ClassField(4096, "S", "Beyond"), AGE
    )
    class_ = Objects(state).class_of(PERSON)
    assert class_ is not None and list(class_.fields) == ["Age"]


def test_a_replica_s_own_object_has_the_class_of_replicas() -> None:
    state = table(NAME)
    for key, value in own_object(12, "north").items():
        state.put(*split_object_key(key), value)
    replica = Objects(state).object(Id(12, 0))
    assert replica is not None and replica.class_id == Id.make(0, 3)
    assert replica.fields == {"Name": "north", "Ack": {}, "Addr": ""}


def test_names_go_before_ids_and_ids_are_whole() -> None:
    state = table(NAME)
    names = {Term("person"): PERSON, Term("add-1"): ANN, Term("ann"): ANN}
    state.put(Id.make(0, 2, 1), "M", write_value("M", names))
    view = Objects(state)
    assert [view.resolve(name) for name in ("person", "add-1", "a-2", "A-2", ANN)] == [
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
    state = table(NAME)
    state.put(Id.make(9, 9), "O", Id.make(0, 3).zip())
    view = Objects(state)
    assert [object_.id for object_ in view.objects()] == [Id(0, 0), Id.make(0, 2), Id.make(9, 9), ANN]
    assert list(view.ids_of_class(PERSON)) == [ANN]
    assert view.object(PERSON) is None and view.class_of(ANN) is None
