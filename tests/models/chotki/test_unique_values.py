"""Values of hash-indexed fields that several objects have (reference 10, 4)."""

from __future__ import annotations

from culm_models.chotki.ids import Id
from culm_models.chotki.rdx.classes import HASH_INDEX, ClassField, write_class
from culm_models.chotki.rdx.first import write_first
from culm_models.chotki.unique_values import Holder, UniqueValues

PERSON = Id.make(0xA, 1)
MAIL = 2
CLASS = write_class([ClassField(1, "S", "Name"), ClassField(MAIL, "S", "Mail", HASH_INDEX)])
ANN, BEN, CAT = (Id.make(0xA, seq) for seq in (2, 3, 4))


def at(object_id: Id, number: int = MAIL) -> Id:
    return Id(object_id.src, object_id.pro + number)


def indexed(most: int = 100) -> UniqueValues:
    values = UniqueValues(most)
    assert values.learn_class(PERSON, CLASS)
    return values


def mail(text: str, writer: int = 0xA, rev: int = 0) -> bytes:
    return write_first(2 * rev, writer, text.encode())


def test_two_objects_with_one_value_are_told_of_once_and_listed_until_one_is_changed() -> None:
    values = indexed()
    assert values.take(PERSON, at(ANN), "S", mail("x@y")) is None
    found = values.take(PERSON, at(BEN), "S", mail("x@y", 0xB, 3))
    assert found is not None
    assert (found.class_id, found.offset) == (PERSON, MAIL)
    assert found.holders == (Holder(ANN, 0xA), Holder(BEN, 0xB))
    assert values.take(PERSON, at(BEN), "S", mail("x@y", 0xB, 4)) is None
    assert values.duplicates() == [found]
    assert values.take(PERSON, at(ANN), "S", mail("other")) is None
    assert values.duplicates() == []
    assert values.take(PERSON, at(CAT), "S", mail("x@y")) is not None


def test_an_empty_value_is_a_value() -> None:
    values = indexed()
    values.take(PERSON, at(ANN), "S", mail(""))
    assert values.take(PERSON, at(BEN), "S", mail("")) is not None


def test_other_fields_types_and_classes_are_passed_over() -> None:
    values = indexed()
    for one in (ANN, BEN):
        assert values.take(PERSON, at(one, 1), "S", mail("same")) is None
        assert values.take(PERSON, at(one), "N", b"") is None
        assert values.take(Id.make(0xB, 1), at(one), "S", mail("same")) is None
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
