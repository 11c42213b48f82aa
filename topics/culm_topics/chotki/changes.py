"""Changes of a program, with classes, objects and fields by name (reference 2.4).

`packet_maker` makes packets of them. Values are Python's (`culm_topics.chotki.values`), or `FromText`, or
`Plus`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from culm_models.chotki.ids import Id


@dataclass(frozen=True, slots=True)
class FromText:
    """A value in text form (reference 3.4), for a field of any type that has a text form."""

    text: str


@dataclass(frozen=True, slots=True)
class Plus:
    """An increment of an N or a Z."""

    number: int


@dataclass(frozen=True, slots=True)
class NewClass:
    """A class with these fields, name to letter, in this order; `name` is its global name."""

    fields: Mapping[str, str]
    name: str | None = None


@dataclass(frozen=True, slots=True)
class EditClass:
    """Additional fields for a class, and new names for existing fields.

    If a field has several names, all replicas take the last one in the order of bytes. So a new name must
    sort after the present one; otherwise it is `ClassRefused`.
    """

    class_: Id | str
    add: Mapping[str, str] = field(default_factory=dict)
    rename: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NewObject:
    """An object of a class with these values, by the fields' names; `name` is its global name."""

    class_: Id | str
    values: Mapping[str, Any]
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Edit:
    """New values for some fields of an object, each complete.

    Elements that a new set or map does not contain are removed.
    """

    object: Id | str
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Name:
    """A global name for a class or an object; it replaces an existing use of the name.

    All names are in one map. Giving a name takes a packet with one name, however many there are. The job
    writes the merged map whole, so all names together must fit into a record.
    """

    name: str
    id: Id | str


Change = NewClass | EditClass | NewObject | Edit | Name
