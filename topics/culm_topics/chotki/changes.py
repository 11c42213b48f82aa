"""Changes that a program makes, as it says them: classes, objects and fields by name (reference 2.4).

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
    """A value as text says it (reference 3.4), for a field of any type that has one."""

    text: str


@dataclass(frozen=True, slots=True)
class Plus:
    """So much more than now, for an N or a Z."""

    number: int


@dataclass(frozen=True, slots=True)
class NewClass:
    """A class of these fields, name to letter, in this order; `name`: its global name."""

    fields: Mapping[str, str]
    name: str | None = None


@dataclass(frozen=True, slots=True)
class EditClass:
    """More fields for a class, and other names for those it has.

    Of the names that a field was given all replicas take the last in the order of bytes, so a new name must
    come behind the present one: else it is `ClassRefused`.
    """

    class_: Id | str
    add: Mapping[str, str] = field(default_factory=dict)
    rename: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NewObject:
    """An object of a class with these values, by the fields' names; `name`: its global name."""

    class_: Id | str
    values: Mapping[str, Any]
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Edit:
    """Other values for some fields of an object, whole: what a set or a map no longer has is removed."""

    object: Id | str
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Name:
    """A global name for a class or an object, also in the place of what had it.

    All names stand in one map. To give one is a packet of one name, however many there are; the job writes
    the merged map whole, so that all names together must fit into a record.
    """

    name: str
    id: Id | str


Change = NewClass | EditClass | NewObject | Edit | Name
