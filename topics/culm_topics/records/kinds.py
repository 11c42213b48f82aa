"""The kinds of items of which records are declared, and the annotations that refine them beyond the type.

A kind is a few templates of Python source in which `{x}` stands for the item. `declare` generates the code of
a record from them, so that reading a record is as fast as with handwritten code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from culm_topics.records.shape import MAX_UINT, utf8_size

PLAIN_NUMBER: Final = f"0 <= {{x}} <= {MAX_UINT}"
"""Condition that holds for a number without other bounds."""

_WORDS: Final = {"uint": "uint", "bstr": "bytes", "tstr": "text"}
_HEAD: Final = "(1 if {x} < 24 else 2 if {x} < 256 else 3 if {x} < 65536 else 5 if {x} < 4294967296 else 9)"
_STRING: Final = "((n := {length}) + (1 if n < 24 else 2 if n < 256 else 3 if n < 65536 else 5))"


@dataclass(frozen=True, slots=True, eq=False)
class ItemKind:
    """One kind of item: how it is checked, read and written, and its CDDL."""

    cddl: str
    wanted: str
    """Description of a valid item, for errors."""
    sound: str
    """Condition that a received item must fulfil."""
    size: str = "0"
    """Number of bytes of its shortest encoding."""
    holds: str = ""
    """Condition that an item must fulfil to be written, beyond the type of the attribute."""
    read: str = "{x}"
    """Expression of the attribute's value for a received item."""
    write: str = "{x}"
    """Expression of the item for an attribute's value."""
    encoded: str = ""
    """Expression of the item's bytes, if that is faster than calling an encoder."""
    names: Mapping[str, object] = field(default_factory=dict)
    """Names that the templates use."""
    rule: str = ""
    """Name of its CDDL rule, if it has a rule."""
    note: str = ""
    """Comment above that rule."""
    uses: Mapping[str, ItemKind] = field(default_factory=dict)
    """Rules that its CDDL refers to."""
    parts: Mapping[str, ItemKind] = field(default_factory=dict)
    """Items of a list of a fixed length, by name."""
    may_end: bool = False
    """Whether it may be omitted as the last item; it is then `ABSENT`."""
    name: str = ""
    """Name of the item, if it differs from the attribute's."""

    @property
    def term(self) -> str:
        """The term by which other CDDL refers to it."""
        return self.rule or self.cddl

    @property
    def rules(self) -> dict[str, ItemKind]:
        """The rules that CDDL with this term needs."""
        return {**self.uses, self.rule: self} if self.rule else dict(self.uses)


ABSENT: Final = object()
"""Stands for an omitted last item."""

Refinement = Callable[[ItemKind], ItemKind]
"""Changes that an annotation makes to the kind that follows from the type."""


def fill(template: str, item: str) -> str:
    """Return the source of a template for this item."""
    return template.replace("{x}", item)


def kind_of(hint: Any) -> ItemKind:
    """Return the kind that an annotation declares."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        kind = next(
            (refinement for refinement in hint.__metadata__ if isinstance(refinement, ItemKind)), None
        ) or kind_of(arguments[0])
        for refinement in hint.__metadata__:
            if not isinstance(refinement, (str, ItemKind)):
                kind = refinement(kind)
        return kind
    if origin in (Union, UnionType):
        (inner,) = (argument for argument in arguments if argument is not NoneType)
        return _optional(kind_of(inner))
    if origin is Literal:
        return _choice(arguments)
    if origin is tuple and arguments[-1] is Ellipsis:
        return _array(kind_of(arguments[0]))
    if origin is tuple:
        return _row(
            {f"item {n}": kind_of(argument) for n, argument in enumerate(arguments)}, "", {}, named=False
        )
    if issubclass(hint, Enum):
        kind = _choice(tuple(member.value for member in hint))
        read, write = f"{hint.__name__}({{x}})", "{x}.value"
        return replace(kind, read=read, write=write, names={hint.__name__: hint})
    if issubclass(hint, tuple):
        return row(hint, **get_type_hints(hint, include_extras=True))
    return _PLAIN[hint]


def notes_of(hint: Any) -> str:
    """Return the annotation's comments for readers of the CDDL."""
    return " ".join(note for note in getattr(hint, "__metadata__", ()) if isinstance(note, str))


def between(low: int, high: int = MAX_UINT) -> Refinement:
    """Accept numbers from `low` to `high`, both included."""
    return lambda kind: replace(
        kind,
        cddl=f"{low}..{high}",
        wanted=f"a number from {low} to {high}",
        sound=f"type({{x}}) is int and {low} <= {{x}} <= {high}",
        holds=f"{low} <= {{x}} <= {high}",
    )


def sized(*sizes: int) -> Refinement:
    """Accept bytes of one of these sizes."""
    words = " or ".join(map(str, sizes))
    cddl = " / ".join(f"bstr .size {size}" for size in sizes)
    kind = where(
        f"len({{x}}) == {sizes[0]}" if len(sizes) == 1 else f"len({{x}}) in {sizes}", f"{words} bytes"
    )
    if len(sizes) > 1:
        return lambda data: replace(kind(data), cddl=cddl)
    return lambda data: replace(kind(data), cddl=cddl, size=str(sizes[0] + _head_size(sizes[0])))


def sized_between(low: int, high: int, unit: int = 1) -> Refinement:
    """Accept bytes, or text in UTF-8, of `low` to `high` bytes and a multiple of `unit`."""

    def refine(kind: ItemKind) -> ItemKind:
        size = "len({x})" if kind.cddl == "bstr" else "utf8_size({x})"
        multiple = "" if unit == 1 else f" and not {size} % {unit}"
        words = f"{low} to {high} bytes" + ("" if unit == 1 else f", a multiple of {unit}")
        refined = where(f"{low} <= {size} <= {high}{multiple}", words, utf8_size=utf8_size)(kind)
        return replace(refined, cddl=f"{kind.cddl} .size ({low}..{high})")

    return refine


def counted(high: int, low: int = 0) -> Refinement:
    """Accept a list of `low` to `high` items."""

    def refine(kind: ItemKind) -> ItemKind:
        holds = f"len({{x}}) <= {high}" if low == 0 else f"{low} <= len({{x}}) <= {high}"
        cddl = kind.cddl.replace("[* ", f"[{low or ''}*{high} ", 1)
        refined = where(holds, f"a list of {f'{low} to' if low else 'at most'} {high}")(kind)
        return replace(refined, cddl=cddl, sound=kind.sound.replace("list", f"list and {holds}", 1))

    return refine


def where(condition: str, wanted: str, **names: object) -> Refinement:
    """Accept only items that also fulfil a condition."""

    def refine(kind: ItemKind) -> ItemKind:
        holds = f"{condition} and {kind.holds}" if kind.holds else condition
        sound = f"{kind.sound} and {condition}"
        return replace(kind, sound=sound, holds=holds, wanted=wanted, names={**kind.names, **names})

    return refine


def when_read(condition: str, wanted: str, **names: object) -> Refinement:
    """Accept only items that also fulfil a condition, checked only when they are read: writers ensure it."""
    return lambda kind: replace(where(condition, wanted, **names)(kind), holds=kind.holds)


def rule(name: str, note: str = "") -> Refinement:
    """Give the item's CDDL a rule of its own, with a comment above it."""
    return lambda kind: replace(kind, rule=name, note=note)


def called(name: str) -> Refinement:
    """Give an item another name than its attribute's."""
    return lambda kind: replace(kind, name=name)


def named(*names: str) -> Refinement:
    """Name the items of a list of a fixed length in the CDDL."""
    return lambda kind: _row(dict(zip(names, kind.parts.values(), strict=True)), "", {}, named=True)


def row(make: type, **hints: Any) -> ItemKind:
    """Return the kind of a list of a fixed length that stands for an object of `make`."""
    kinds = {name: kind_of(hint) for name, hint in hints.items()}
    kind = _row(kinds, make.__name__, {make.__name__: make}, named=True)
    if issubclass(make, tuple):
        return kind
    items = ", ".join(fill(item_kind.write, f"{{x}}.{name}") for name, item_kind in kinds.items())
    return replace(kind, write=f"({items})")


def _head_size(argument: int) -> int:
    return 1 if argument < 24 else 2


def _optional(kind: ItemKind) -> ItemKind:
    # The optional rule is separate and begins with null, because some validators misread it otherwise.
    name = kind.rule or _WORDS[kind.cddl]

    def unless_none(template: str, otherwise: str, same: str = "") -> str:
        return template if template == same else f"({otherwise} if {{x}} is None else {template})"

    return replace(
        kind,
        cddl=f"null / {kind.cddl}",
        rule=f"optional-{name}",
        wanted=f"{kind.wanted} or null",
        sound=f"({{x}} is None or {kind.sound})",
        size=unless_none(kind.size, "1"),
        holds=f"({{x}} is None or {kind.holds})" if kind.holds else "",
        read=unless_none(kind.read, "None", "{x}"),
        write=unless_none(kind.write, "None", "{x}"),
    )


def _choice(words: tuple[str, ...]) -> ItemKind:
    cddl = " / ".join(f'"{word}"' for word in words)
    return replace(
        _PLAIN[str],
        cddl=cddl,
        wanted=f"one of {', '.join(words)}",
        sound=f"type({{x}}) is str and {{x}} in {words}",
    )


def _array(item: ItemKind) -> ItemKind:
    if item.parts:
        # The items of a row get names of their own: the checks then unpack a row once instead of indexing it.
        places = [f"i{n}" for n in range(len(item.parts))]
        each = f"for {', '.join(places)} in {{x}}"
        kinds = list(zip(item.parts.values(), places, strict=True))
        sound = " and ".join(fill(kind.sound, name) for kind, name in kinds)
        rows = f"all([type(i) is list and len(i) == {len(places)} for i in {{x}}])"
        sound = f"type({{x}}) is list and {rows} and all([{sound} {each}])"
        size = " + ".join(["1", *(fill(kind.size, name) for kind, name in kinds)])
        holds = " and ".join(fill(kind.holds, name) for kind, name in kinds if _is_asked(kind))
        values = ", ".join(fill(kind.read, name) for kind, name in kinds)
        read = f"{item.read.partition('(')[0]}({values}) {each}"
    else:
        each = "for i in {x}"
        sound = f"type({{x}}) is list and all([{fill(item.sound, 'i')} {each}])"
        size = fill(item.size, "i")
        holds = fill(item.holds, "i") if _is_asked(item) else ""
        read = f"{fill(item.read, 'i')} {each}"
    return replace(
        item,
        cddl=f"[* {item.term}]",
        rule="",
        note="",
        uses=item.rules,
        wanted=f"a list, each of {item.wanted}",
        sound=sound,
        size=f"{fill(_HEAD, 'len({x})')} + sum([{size} {each}])",
        holds=f"all([{holds} {each}])" if holds else "",
        read="tuple({x})" if read == "i for i in {x}" else f"tuple([{read}])",
        write="{x}" if item.write == "{x}" else f"[{fill(item.write, 'i')} for i in {{x}}]",
        parts={},
        encoded="",
    )


def _is_asked(item: ItemKind) -> bool:
    # The numbers of a list are not checked one by one before writing.
    return item.holds not in ("", PLAIN_NUMBER)


def _row(kinds: Mapping[str, ItemKind], make: str, names: Mapping[str, object], *, named: bool) -> ItemKind:
    places = [(kind, f"{{x}}[{n}]") for n, kind in enumerate(kinds.values())]
    members = [f"{kind.name or name}: {kind.term}" if named else kind.term for name, kind in kinds.items()]
    checks = [f"type({{x}}) is list and len({{x}}) == {len(places)}"]
    checks += [fill(kind.sound, expression) for kind, expression in places]
    merged = dict(names)
    uses: dict[str, ItemKind] = {}
    for kind in kinds.values():
        merged |= kind.names
        uses |= kind.rules
    return ItemKind(
        cddl=f"[{', '.join(members)}]",
        wanted=f"[{', '.join(kinds)}]",
        sound=" and ".join(checks),
        size=" + ".join(["1", *(fill(kind.size, expression) for kind, expression in places)]),
        holds=" and ".join(fill(kind.holds, expression) for kind, expression in places if kind.holds),
        read=f"{make}({', '.join(fill(kind.read, expression) for kind, expression in places)})",
        names=merged,
        uses=uses,
        parts=kinds,
    )


_PLAIN: Final[Mapping[object, ItemKind]] = {
    int: ItemKind(
        "uint",
        "an unsigned integer of 64 bits",
        f"type({{x}}) is int and {PLAIN_NUMBER}",
        size=_HEAD,
        holds=PLAIN_NUMBER,
    ),
    bytes: ItemKind(
        "bstr",
        "bytes",
        "type({x}) is bytes",
        size=_STRING.replace("{length}", "len({x})"),
        encoded="encode_bytes({x})",
    ),
    str: ItemKind(
        "tstr",
        "text",
        "type({x}) is str",
        size=_STRING.replace("{length}", "len({x}) if {x}.isascii() else len({x}.encode())"),
    ),
}
