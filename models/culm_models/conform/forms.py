"""The JSON forms of values, derived from the annotations of their dataclasses.

Integers are JSON integers or decimal digits, bytes are hex, tuples are lists, enumerations are words, None is
left out. A protocol can override the forms of types, and of members of a class.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from enum import IntEnum, StrEnum
from functools import cache, partial
from types import NoneType, UnionType
from typing import Any, Final, Generic, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from culm_models.conform.arguments import U64_MAX, ArgumentError, as_integer, as_mapping, as_octets, as_word
from culm_models.errors import CulmError

T = TypeVar("T")
LEFT_OUT: Final = object()
"""Shown in place of a member that is left out of its object."""
REQUIRED: Final = MISSING
"""Marks a member without a default although its field has one."""


@dataclass(frozen=True, slots=True)
class Form:
    """The JSON form of a value.

    ``read`` raises `ArgumentError` with the value's name; ``show`` is its inverse.
    """

    read: Callable[[Any, str], Any]
    show: Callable[[Any], Any] = lambda value: value


def plain(kind: type | tuple[type, ...], words: str) -> Form:
    """Return the form of a value that JSON has as it is, of a type that ``words`` describe."""

    def read(value: Any, name: str) -> Any:
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise ArgumentError(f"{name} is not {words}")
        return value

    return Form(read)


TEXT: Final = plain(str, "a string")
FLAG: Final = plain(bool, "true or false")
NUMBER: Final = Form(lambda value, name: float(plain((int, float), "a number").read(value, name)))


def integer(*, min_value: int = 0, max_value: int = U64_MAX) -> Form:
    """Return the form of an integer between ``min_value`` and ``max_value``."""
    return Form(partial(as_integer, min_value=min_value, max_value=max_value))


def octets(size: int | None = None) -> Form:
    """Return the form of bytes, exactly ``size`` of them unless it is None."""
    return Form(partial(as_octets, size=size), bytes.hex)


def words(choices: Mapping[str, Any]) -> Form:
    """Return the form of values that are written as words."""
    names = {value: word for word, value in choices.items()}
    return Form(lambda value, name: as_word(value, name, choices), names.__getitem__)


def nullable(form: Form, absent: Any = None) -> Form:
    """Return the form of a value that may be null for None; None is shown as ``absent``."""
    return Form(
        lambda value, name: None if value is None else form.read(value, name),
        lambda value: absent if value is None else form.show(value),
    )


def optional(form: Form) -> Form:
    """Return the form of a member that is left out for None."""
    return nullable(form, LEFT_OUT)


def shown(show: Callable[[Any], Any]) -> Form:
    """Return the form of a value that is only shown."""
    return Form(lambda value, name: value, show)


def or_never(form: Form) -> Form:
    """Return the form of a value for which null and 0 mean None: never."""

    def read(value: Any, name: str) -> Any:
        return None if value is None or (value == 0 and value is not False) else form.read(value, name)

    return Form(read)


def sequence(form: Form) -> Form:
    """Return the form of a tuple of any length, written as a list."""

    def read(value: Any, name: str) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise ArgumentError(f"{name} is not a list")
        return tuple(form.read(item, f"an item of {name}") for item in value)

    return Form(read, lambda value: [form.show(item) for item in value])


def row(*forms: Form) -> Form:
    """Return the form of a tuple of fixed length, written as a list."""

    def read(value: Any, name: str) -> tuple[Any, ...]:
        if not isinstance(value, list) or len(value) != len(forms):
            raise ArgumentError(f"{name} is not a list of {len(forms)}")
        return tuple(form.read(item, name) for form, item in zip(forms, value, strict=True))

    return Form(read, lambda value: [form.show(item) for form, item in zip(forms, value, strict=True)])


Forms = Mapping[Any, Form]
"""Forms by annotation, for protocols that override the derived ones."""
_PLAIN: Final[Forms] = {int: integer(), bytes: octets(), str: TEXT, bool: FLAG, float: NUMBER}


def form_of(annotation: Any, forms: Forms) -> Form:
    """Return the form of the values of a type."""
    if (known := forms.get(annotation, _PLAIN.get(annotation))) is not None:
        return known
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (UnionType, Union):
        (inner,) = (argument for argument in arguments if argument is not NoneType)
        return nullable(form_of(inner, forms))
    if origin is Literal:
        return words({word: word for word in arguments})
    if origin is tuple and arguments[1:] == (...,):
        return sequence(form_of(arguments[0], forms))
    if origin is tuple:
        return row(*(form_of(argument, forms) for argument in arguments))
    if issubclass(annotation, StrEnum):
        return words({item.value: item for item in annotation})
    if issubclass(annotation, IntEnum):
        return words({item.name.lower(): item for item in annotation})
    record = RecordForm(annotation, forms)
    return Form(lambda value, name: record.read(as_mapping(value, name)), record.show)


@dataclass(frozen=True, slots=True)
class MemberForm:
    """Overrides for the member of one field. ``default``: the value if the member is left out.

    ``inline``: the shown members become members of the enclosing object.
    """

    form: Form | None = None
    name: str | None = None
    default: Any = LEFT_OUT
    inline: bool = False


HIDDEN: Final = MemberForm()
"""A field that is left out of its object; it is read as its default."""


Members = Mapping[str, MemberForm]
"""Members by field."""
_NONE: Final[Members] = {}


class _Resolved:
    """The member of one field, with its overrides applied."""

    __slots__ = ("attribute", "default", "form", "inline", "name")

    def __init__(self, field: Field[Any], annotation: Any, forms: Forms, member: MemberForm) -> None:
        is_optional = NoneType in get_args(annotation)
        derived = member.form or form_of(annotation, forms)
        self.attribute = field.name
        self.name = member.name or field.name
        self.form = optional(derived) if is_optional and member.form is None else derived
        self.inline = member.inline
        self.default = field.default if member.default is LEFT_OUT else member.default
        if self.default is MISSING and field.default_factory is not MISSING:
            self.default = field.default_factory()
        if is_optional and self.default is MISSING:
            self.default = None

    def read(self, members: Mapping[str, Any]) -> Any:
        value = members.get(self.name)
        if value is not None:
            return self.form.read(value, self.name)
        if self.default is MISSING:
            raise ArgumentError(f"the argument {self.name!r} is missing")
        return self.default


class RecordForm(Generic[T]):
    """The form of a dataclass: an object with a member for each of its fields, starting with ``first``."""

    def __init__(
        self, kind: type[T], forms: Forms = _PLAIN, members: Members = _NONE, first: Sequence[str] = ()
    ) -> None:
        assert is_dataclass(kind), f"{kind} has no fields"
        self.kind: Callable[..., T] = kind
        hints = get_type_hints(kind)
        self._members = [
            _Resolved(field, hints[field.name], forms, members.get(field.name, MemberForm()))
            for field in sorted(fields(kind), key=lambda field: [*first, field.name].index(field.name))
            if members.get(field.name) is not HIDDEN
        ]

    def check_names(self, names: Iterable[str], owner: str) -> None:
        """Raise `ArgumentError` if an object has unknown members."""
        if unknown := set(names) - {member.name for member in self._members}:
            raise ArgumentError(f"{owner} has no {min(unknown)[:100]!r}")

    def read(self, members: Mapping[str, Any], **fixed: Any) -> T:
        """Read the value of an object; ``fixed``: fields that are not read from it."""
        read = {
            member.attribute: member.read(members)
            for member in self._members
            if member.attribute not in fixed
        }
        return self.kind(**read, **fixed)

    def show(self, value: T) -> dict[str, Any]:
        """Return the object of a value."""
        shown: dict[str, Any] = {}
        for member in self._members:
            item = member.form.show(getattr(value, member.attribute))
            if member.inline:
                shown |= item
            elif item is not LEFT_OUT:
                shown[member.name] = item
        return shown


class SettingsForm(RecordForm[T]):
    """The form of a machine's settings. Names may be in camel case, and without the unit of times."""

    def __init__(self, kind: type[T], forms: Forms = _PLAIN, members: Members = _NONE) -> None:
        super().__init__(kind, forms, members)
        self._own_names = {member.name.removesuffix("_ms"): member.name for member in self._members}

    def own_name(self, name: str) -> str:
        """Return the full name of a setting. Raises `ArgumentError` if there is no such setting."""
        own = self._own_names.get(plain_name(name))
        if own is None:
            raise ArgumentError(f"there is no setting {name[:100]!r}")
        return own

    def over(self, base: T, settings: Mapping[str, Any]) -> T:
        """Return ``base`` with the settings of an object.

        Raises `ArgumentError` for unknown or invalid settings.
        """
        named = {self.own_name(name): value for name, value in settings.items()}
        chosen = {
            member.attribute: member.form.read(named[member.name], f"the setting {member.name}")
            for member in self._members
            if member.name in named
        }
        try:
            return replace(base, **chosen)  # type: ignore[type-var]  # a dataclass, as in `RecordForm`
        except CulmError as error:
            raise ArgumentError(f"the settings do not fit: {error}") from None


def plain_name(name: str) -> str:
    """Return a name in snake case, without the unit of times."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().removesuffix("_ms")


class Choice:
    """The forms of several classes, distinguished by a word in the member ``type``.

    ``members`` has the members of all classes by field.
    """

    def __init__(self, forms: Forms, members: Members, **kinds: type | RecordForm[Any]) -> None:
        self.records = {
            word: kind if isinstance(kind, RecordForm) else RecordForm(kind, forms, members)
            for word, kind in kinds.items()
        }
        self._words = {record.kind: word for word, record in self.records.items()}

    def read(self, members: Mapping[str, Any], **fixed: Any) -> Any:
        """Read the value of an object.

        Raises `ArgumentError` for an unknown ``type`` or an invalid member.
        """
        record = self.records.get(TEXT.read(members.get("type"), "type"))
        if record is None:
            raise ArgumentError(f"there is no message type {members['type'][:100]!r} here")
        return record.read(members, **fixed)

    def show(self, value: Any) -> dict[str, Any]:
        """Return the object of a value."""
        word = self._words[type(value)]
        return {"type": word, **self.records[word].show(value)}


class Events:
    """The objects of events: their kind, then their fields.

    ``members`` has the members of all classes by field.
    """

    def __init__(self, forms: Forms, members: Members = _NONE) -> None:
        self._record: Callable[[Any], RecordForm[Any]] = cache(lambda kind: RecordForm(kind, forms, members))

    def show(self, event: Any) -> dict[str, Any]:
        """Return the object of an event."""
        return {"kind": event.kind, **self._record(type(event)).show(event)}
