"""Declares records: a class with annotated items, from which its reader, writer and CDDL are generated.

    @record("version-vectors", "the highest sequence number a peer holds of a log.")
    class VersionVectorRecord(Record):
        seq_num: int

A value is an array whose first item is the format number, followed by the items in their order. It is
accepted only in the one encoding that `encode` produces: shortest heads, definite lengths, no tags, no
trailing bytes. The check needs no second encoding: every other form that CBOR allows is longer than the
shortest form, except references (tags 25, 28, 29, 256) and big numbers, which are refused outright. So a
value that has exactly the length of the shortest form is in that form.

The code is generated when a record is first read or written, because programs use few of all records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Final, NamedTuple, Self, TypeVar, dataclass_transform, get_type_hints

import cbor2

from culm_topics.records.kinds import ABSENT, ItemKind, fill, kind_of, notes_of
from culm_topics.records.shape import FORMAT, load_array, refuse_item, refuse_size

_NULL: Final = b"\xf6"
_SHORT_HEADS: Final = tuple(bytes([0x40 + length]) for length in range(24))


class Codec(NamedTuple):
    """Encoding of arrays as bytes."""

    load: Callable[..., list[Any]]
    dumper: Callable[[str], Callable[[Any], bytes]]
    """Returns the function that encodes the records of a topic."""
    is_exact: bool
    """Whether `load` itself refuses every encoding except the one that `dumper` produces."""


CBOR: Final = Codec(load_array, lambda topic: cbor2.dumps, is_exact=False)


class Declaration(NamedTuple):
    """The declaration of a record, as given to `record`."""

    topic: str
    about: str
    rule: str
    order: tuple[str, ...]
    codec: Codec


@dataclass(frozen=True, slots=True)
class Record:
    """Base of the records of a topic. `record` declares a subclass."""

    declaration: ClassVar[Declaration]

    def encode(self) -> bytes:
        """Return the record's value. Raises `RecordError` if `decode` would refuse it."""
        _make_code(type(self))
        return self.encode()

    @classmethod
    def decode(cls, value: bytes | None) -> Self:
        """Return the record in `value`. Raises `RecordError`, with the reason, if it is malformed."""
        _make_code(cls)
        return cls.decode(value)

    def verify(self) -> None:
        """Raise `RecordError` if the items contradict each other."""


class Item(NamedTuple):
    """One item of a record's array."""

    name: str
    kind: ItemKind
    note: str
    owner: str
    """The attribute that is this item or contains it."""
    is_part: bool = False
    is_derived: bool = False
    """Whether the item is computed from the other items."""


_T = TypeVar("_T", bound=Record)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(
    topic: str, about: str, *, rule: str = "", layout: Sequence[str] = (), codec: Codec = CBOR
) -> Callable[[type[_T]], type[_T]]:
    """Return a decorator that makes a class the record of a topic.

    `about` is the comment above its CDDL, whose rule is called `rule`. `layout` is the order of the items, if
    it differs from the order of the fields. A property in `layout` is an item that is computed from others;
    `decode` compares it with them.
    """

    def declare(cls: type[_T]) -> type[_T]:
        made = dataclass(frozen=True, slots=True)(cls)
        names = layout or tuple(attribute.name for attribute in fields(made))
        name = rule or f"{topic.replace('.', '-')}-value"
        made.declaration = Declaration(topic, about, name, tuple(names), codec)
        return made

    return declare


def spread(kind: ItemKind) -> ItemKind:
    """Mark an attribute whose parts are items of the record itself, without a nested list."""
    return kind


def items_of(cls: type[Record]) -> list[Item]:
    """Return the items of a record after the format number, in order."""
    hints = get_type_hints(cls, include_extras=True)
    items = []
    for name in cls.declaration.order:
        derived = getattr(cls, name) if name not in hints else None
        hint = hints[name] if derived is None else get_type_hints(derived.fget, include_extras=True)["return"]
        kind = kind_of(hint)
        if spread in getattr(hint, "__metadata__", ()):
            parts = get_type_hints(hint.__origin__, include_extras=True)
            note = notes_of(hint)
            items += [
                Item(part, kind.parts[part], notes_of(part_hint) or note, name, is_part=True)
                for part, part_hint in parts.items()
            ]
        else:
            items.append(Item(kind.name or name, kind, notes_of(hint), name, is_derived=derived is not None))
    return items


def _make_code(cls: type[Record]) -> None:
    """Replace `encode` and `decode` of a class by code generated for its items."""
    if "decode" in vars(cls):
        return  # the caller holds a reference from before
    declared, items = cls.declaration, items_of(cls)
    names: dict[str, object] = {
        "cls": cls,
        "ABSENT": ABSENT,
        "load": declared.codec.load,
        "dump": declared.codec.dumper(declared.topic),
        "refuse_item": refuse_item,
        "refuse_size": refuse_size,
        "encode_bytes": _encode_bytes,
        "head": bytes([0x80 + len(items) + 1, FORMAT]),
    }
    for item in items:
        names |= item.kind.names
        names[f"whole_{item.owner}"] = get_type_hints(cls).get(item.owner)
    exec("\n".join([*_encoder(cls, items), *_decoder(cls, items)]), names)
    for name in ("encode", "decode"):
        made: Any = names[name]
        made.__qualname__ = f"{cls.__qualname__}.{name}"
        made.__doc__ = getattr(Record, name).__doc__
    cls.encode = names["encode"]  # type: ignore[method-assign, assignment]
    cls.decode = staticmethod(names["decode"])  # type: ignore[method-assign, assignment, arg-type]


def _encoder(cls: type[Record], items: Sequence[Item]) -> list[str]:
    lines = ["def encode(self):"]
    for owner in dict.fromkeys(item.owner for item in items):
        parts = [item for item in items if item.owner == owner]
        if not parts[0].is_part:
            lines.append(f"    v_{parts[0].name} = {fill(parts[0].kind.write, f'self.{owner}')}")
        else:
            lines.append(f"    {', '.join(f'v_{part.name}' for part in parts)} = self.{owner}")
    lines += [line for item in items if item.kind.holds for line in _refusal(cls, item, item.kind.holds)]
    if cls.verify is not Record.verify:
        lines.append("    self.verify()")
    encoded = [fill(item.kind.encoded, f"v_{item.name}") for item in items]
    if cls.declaration.codec is CBOR and all(encoded):
        return [*lines, f"    return head + {' + '.join(encoded)}"]
    written = [str(FORMAT), *(f"v_{item.name}" for item in items)]
    whole = f"({', '.join(written)})"
    if items[-1].kind.may_end:
        whole = f"({', '.join(written[:-1])}) if {written[-1]} is ABSENT else {whole}"
    return [*lines, f"    return dump({whole})"]


def _decoder(cls: type[Record], items: Sequence[Item]) -> list[str]:
    last, targets = items[-1], [f"v_{item.name}" for item in items]
    lines = ["def decode(value):"]
    topic = repr(cls.declaration.topic)
    if last.kind.may_end:
        targets[-1] = "*more"
        lines.append(f"    _, {', '.join(targets)} = load(value, {topic}, {len(items)}, optional=1)")
        lines.append(f"    v_{last.name} = more[0] if more else ABSENT")
    else:
        lines.append(f"    _, {', '.join(targets)} = load(value, {topic}, {len(items) + 1})")
    for item in items:
        lines += _refusal(cls, item, item.kind.sound)
    if not cls.declaration.codec.is_exact:
        sizes = [fill(item.kind.size, f"v_{item.name}") for item in items]
        known = 2 + sum(int(size) for size in sizes if size.isdecimal())
        size = " + ".join([str(known), *(size for size in sizes if not size.isdecimal())])
        lines += [
            f"    if len(value) != (size := {size}):",
            f"        refuse_size({cls.declaration.topic!r}, value, size)",
        ]
    values = []
    for owner in (attribute.name for attribute in fields(cls)):
        parts = [item for item in items if item.owner == owner]
        value = ", ".join(fill(part.kind.read, f"v_{part.name}") for part in parts)
        values.append(value if not parts[0].is_part else f"whole_{owner}({value})")
    lines.append(f"    record = cls({', '.join(values)})")
    if cls.verify is not Record.verify:
        lines.append("    record.verify()")
    for item in items:
        if item.is_derived:
            lines += _refusal(cls, item, f"{{x}} == record.{item.owner}")
    return [*lines, "    return record"]


def _refusal(cls: type[Record], item: Item, condition: str) -> list[str]:
    where = f"{cls.declaration.topic!r}, {item.name!r}, v_{item.name}, {item.kind.wanted!r}"
    return [f"    if not ({fill(condition, f'v_{item.name}')}):", f"        refuse_item({where})"]


def _encode_bytes(data: bytes | None) -> bytes:
    if data is None:
        return _NULL
    length = len(data)
    return _SHORT_HEADS[length] + data if length < len(_SHORT_HEADS) else cbor2.dumps(data)
