"""Objects and classes for programs, read from the fields of a state (reference 1.4, 2.6, 10.9).

`Objects` reads classes, names and typed values from any source of fields by object (`FieldSource`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from culm_models.chotki.errors import ChotkiError
from culm_models.chotki.ids import OFFSET_MAX, Id, read_id_text
from culm_models.chotki.log0 import NAMES_ID, REPLICA_CLASS_ID, SYSTEM_SOURCE
from culm_models.chotki.rdx import ClassField, parse_class
from culm_models.chotki.rdx.classes import REFERENCE_FIELD
from culm_models.chotki.unique_values import DuplicateValue, UniqueValues
from culm_topics.chotki.errors import NameUnknown
from culm_topics.chotki.global_names import GlobalNames
from culm_topics.chotki.values import Value, read_value

Place = tuple[int, str]
"""Position of a field in its object: its number (0: the object itself) and the letter of its type."""

NAMES_OBJECT: Final = Id.make(NAMES_ID.src, NAMES_ID.seq)
NAMES_PLACE: Final[Place] = (NAMES_ID.off, "M")
"""The map of global names."""
_OWN: Final = "COY"
_NOTHING: Final[Mapping[Place, bytes]] = {}


DEFAULT_MAX_VALUES: Final = 1_000_000


class FieldSource(Protocol):
    """Bare values by object."""

    def fields(self, id: Id) -> Mapping[Place, bytes]:
        """Return the fields of an object, empty if there is no such object."""
        ...

    def ids(self, class_id: Id | None = None) -> Iterator[Id]:
        """Return the objects of a class, or every object and class, by ID."""
        ...

    def class_ids(self) -> Iterator[Id]:
        """Return every class, by ID."""
        ...

    def names(self) -> GlobalNames:
        """Return the present global names."""
        ...


@dataclass(frozen=True, slots=True)
class ChotkiClass:
    """A class: its fields by their present names.

    A rename keeps number and type; an added field has a new number. Fields that share a name, or have none,
    are distinguished by number and type: ``Name@3S``.
    """

    id: Id
    names: tuple[str, ...]
    fields: Mapping[str, ClassField]

    @property
    def name(self) -> str:
        """Its first global name, else its ID."""
        return self.names[0] if self.names else str(self.id)

    def place(self, name: str) -> Place | None:
        """Return the position of a field in an object of the class; None if there is no such field."""
        field = self.fields.get(name)
        return None if field is None else place_of(self.id, field)


@dataclass(frozen=True, slots=True)
class ChotkiObject:
    """An object in its present state: `fields` has every field of its class, None if nothing was written yet.

    `class_` is None if the state does not contain its class. Values without a field in the class are in
    `others`, by number and letter. A replica's own object has the `class_id` of replicas.
    """

    id: Id
    class_id: Id
    class_: ChotkiClass | None
    names: tuple[str, ...]
    fields: Mapping[str, Value | None]
    others: Mapping[Place, Value] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Value | None:
        return self.fields[name]


def object_of(at: Id) -> Id:
    """Return the ID of the object to which a field's ID belongs."""
    return Id(at.src, at.pro - at.off)


def place_of(class_id: Id, field: ClassField) -> Place:
    """Return the position of a class's field in an object: the system's classes count from 0."""
    return (field.offset + 1 if class_id.src == SYSTEM_SOURCE else field.offset), field.letter


def class_id_among(fields: Mapping[Place, bytes]) -> Id | None:
    """Return the class that an object with these fields names; None if it is not an object."""
    if (0, "Y") in fields:
        return REPLICA_CLASS_ID
    class_id = read_value("O", fields[0, "O"]) if (0, "O") in fields else None
    return class_id if isinstance(class_id, Id) else None


class Objects:
    """Classes, objects and names of a `FieldSource`, in its state at the time of each call."""

    def __init__(self, source: FieldSource) -> None:
        self._source = source

    def names(self) -> dict[str, Id]:
        """Return the global names; if a term and a string are alike, the term counts."""
        return self._source.names().all()

    def named(self, name: str) -> Id | None:
        """Return the ID with this global name, or None."""
        return self._source.names().id_of(name)

    def resolve(self, name: Id | str) -> Id:
        """Return the ID of an object or class by its global name, or by the text of its ID.

        Raises `NameUnknown`.
        """
        if isinstance(name, Id):
            return name
        named_id = self.named(name)
        if named_id is not None:
            return named_id
        id = read_id_text(name)
        if str(id) != name.lower() or "-" not in name or id.off:
            raise NameUnknown(f"nothing has the global name {name!r:.100}, and it is no ID of an object")
        return id

    def classes(self) -> Iterator[ChotkiClass]:
        """Yield every class, by ID."""
        names = self._source.names()
        for id in self._source.class_ids():
            yield self._class(id, names)

    def class_of(self, id: Id) -> ChotkiClass | None:
        """Return the class with this ID, or None."""
        return self._class(id, self._source.names()) if (0, "C") in self._source.fields(id) else None

    def object(self, id: Id) -> ChotkiObject | None:
        """Return the object with this ID; None if there is none, or if it is a class."""
        return next(self.objects([id]), None)

    def objects(self, ids: Iterator[Id] | list[Id] | None = None) -> Iterator[ChotkiObject]:
        """Yield these objects, or all by ID; classes and IDs that are not objects are left out."""
        names = self._source.names()
        classes: dict[Id, ChotkiClass | None] = {}
        for id in self._source.ids() if ids is None else ids:
            fields = self._source.fields(id)
            class_id = class_id_among(fields)
            if class_id is None:
                continue
            if class_id not in classes:
                known = (0, "C") in self._source.fields(class_id)
                classes[class_id] = self._class(class_id, names) if known else None
            yield _object(id, class_id, classes[class_id], names.names_of(id), fields)

    def ids_of_class(self, class_id: Id) -> Iterator[Id]:
        """Return the objects of a class, by ID."""
        return self._source.ids(class_id)

    def class_id_of(self, id: Id) -> Id | None:
        """Return the class that an object names; None if it is not an object."""
        return class_id_among(self._source.fields(id))

    def _class(self, id: Id, names: GlobalNames) -> ChotkiClass:
        try:
            entries = parse_class(self._source.fields(id)[0, "C"])
        except ChotkiError:
            entries = []
        fields: dict[str, ClassField] = {}
        for class_field in entries:
            number, letter = place_of(id, class_field)
            # The number 0 is the object itself.
            if class_field != REFERENCE_FIELD and 0 < number <= OFFSET_MAX:
                free = class_field.name and class_field.name not in fields
                fields[class_field.name if free else f"{class_field.name}@{number:x}{letter}"] = class_field
        return ChotkiClass(id, names.names_of(id), fields)


def _object(
    id: Id,
    class_id: Id,
    class_: ChotkiClass | None,
    names: tuple[str, ...],
    fields: Mapping[Place, bytes],
) -> ChotkiObject:
    places = {place_of(class_id, field): name for name, field in class_.fields.items()} if class_ else {}
    typed: dict[str, Value | None] = dict.fromkeys(places.values())
    others = {}
    for position, value in fields.items():
        if position in places:
            typed[places[position]] = read_value(position[1], value)
        elif position[0] or position[1] not in _OWN:
            others[position] = read_value(position[1], value)
    return ChotkiObject(id, class_id, class_, names, typed, others)


def find_duplicates(source: FieldSource, max_values: int = DEFAULT_MAX_VALUES) -> list[DuplicateValue]:
    """Return all duplicates among `max_values` values at most; reads classes with unique fields only."""
    values = UniqueValues(max_values)
    for class_id in source.class_ids():
        if (entries := source.fields(class_id).get((0, "C"))) is not None:
            values.learn_class(class_id, entries)
    for class_id in sorted(values.classes):
        for id in source.ids(class_id):
            for (number, letter), value in source.fields(id).items():
                values.take(class_id, Id(id.src, id.pro + number), letter, value)
    return values.duplicates()
