"""Values of hash-indexed fields, and the objects with equal ones (reference 10, 4).

A Go replica refuses a second object of a class with an equal value in such a field, and then reads nothing
more on that connection. Culm refuses no value; it reports equal ones. Values are equal if their bytes without
the stamp are; an empty value counts, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from culm_models.chotki.errors import ChotkiError
from culm_models.chotki.ids import OFFSET_MAX, Id
from culm_models.chotki.rdx.classes import HASH_INDEX, parse_class
from culm_models.chotki.rdx.first import read_first

INDEXED_TYPES: Final = frozenset("FIRST")


class Holder(NamedTuple):
    """An object that has a value, and the source that wrote it."""

    object: Id
    writer: int


class DuplicateValue(NamedTuple):
    """A value that several objects of a class have in one field; ``value`` includes the stamp."""

    class_id: Id
    offset: int
    letter: str
    value: bytes
    holders: tuple[Holder, ...]


_Name = tuple[Id, int, bytes]
"""Class, field number and value bytes."""


class UniqueValues:
    """The index of at most `most` values; further values are ignored (`is_full`)."""

    def __init__(self, max_values: int) -> None:
        self.is_full = False
        self._max_values = max_values
        self._fields: dict[Id, frozenset[int]] = {}
        self._holders: dict[_Name, tuple[Holder, ...]] = {}
        self._name_of: dict[Id, _Name] = {}
        """The indexed value of each field, by the field's ID."""
        self._shared: dict[_Name, tuple[str, bytes]] = {}
        """Values that several objects have, with letter and stored value."""

    @property
    def classes(self) -> Mapping[Id, frozenset[int]]:
        """The numbers of the hash-indexed fields of each class that has any."""
        return self._fields

    def learn_class(self, class_id: Id, value: bytes) -> bool:
        """Read the entries of a class. Returns whether that added hash-indexed fields."""
        try:
            offsets = {field.offset for field in parse_class(value) if field.index == HASH_INDEX}
        except ChotkiError:
            return False
        before = self._fields.get(class_id, frozenset())
        if offsets <= before:
            return False
        self._fields[class_id] = before | offsets
        return True

    def take(self, class_id: Id, field: Id, letter: str, value: bytes) -> DuplicateValue | None:
        """Index a field's current value. Returns the duplicate, once, if another object has the same value.

        ``field`` is the object's ID with the number of the field; fields that are not indexed are skipped.
        """
        if letter not in INDEXED_TYPES or field.off not in self._fields.get(class_id, ()):
            return None
        _, writer, content = read_first(value)
        name = (class_id, field.off, content)
        former = self._name_of.get(field)
        if former == name:
            return None
        if former is not None:
            self._release(former, field)
        elif len(self._name_of) >= self._max_values:
            self.is_full = True
            return None
        self._name_of[field] = name
        holder = Holder(Id(field.src, field.pro & ~OFFSET_MAX), writer)
        holders = self._holders[name] = (*self._holders.get(name, ()), holder)
        if len(holders) == 1:
            return None
        self._shared[name] = (letter, value)
        return DuplicateValue(class_id, field.off, letter, value, holders)

    def duplicates(self) -> list[DuplicateValue]:
        """Return all values that several objects have now."""
        return [
            DuplicateValue(name[0], name[1], letter, value, self._holders[name])
            for name, (letter, value) in self._shared.items()
        ]

    def __len__(self) -> int:
        return len(self._name_of)

    def _release(self, name: _Name, field: Id) -> None:
        gone = Id(field.src, field.pro & ~OFFSET_MAX)
        rest = tuple(holder for holder in self._holders[name] if holder.object != gone)
        if rest:
            self._holders[name] = rest
        else:
            del self._holders[name]
        if len(rest) < 2:
            self._shared.pop(name, None)


def texts(holders: Iterable[Holder]) -> str:
    """Return objects and their writers as text for warnings."""
    return ", ".join(f"{holder.object} (written by {holder.writer:x})" for holder in holders)
