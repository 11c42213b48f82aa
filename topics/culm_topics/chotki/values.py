"""A field's value as a Python value, and back (reference 1.4, 3.4).

| type | Python |
|---|---|
| F I S N Z | `float`, `int`, `str`, and the sums of N and Z as `int` |
| R T | `Id`, `Term` |
| E | `Elements`: a tuple in stored order, with those that were removed beside it |
| M | `Pairs`: a dictionary, with the keys that were removed beside it |
| V | a dictionary of sources and progress |
| L | a tuple of its elements |
| what does not parse as its type | `Unreadable` |

What is written has empty stamps, as a value that was read from text has: `culm_models.chotki.rdx.delta` makes
an operand of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from culm_models.chotki.compat import Compat
from culm_models.chotki.errors import ChotkiError
from culm_models.chotki.ids import PRO_MASK, Id
from culm_models.chotki.rdx import check_value, parse_text, parse_vector, write_vector
from culm_models.chotki.rdx.diff import counter_sum, natural_sum
from culm_models.chotki.rdx.first import (
    FIRST_LETTERS,
    elements,
    pairs,
    read_first,
    write_element,
    write_first,
)
from culm_models.chotki.rdx.scalars import read_id
from culm_models.chotki.zip import U64_MAX, pack_float, pack_int, unpack_float, unpack_int
from culm_topics.chotki.errors import ValueRefused

_I64_MIN: Final = -(1 << 63)
_I64_MAX: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Term:
    """A T: a word. It differs from the string of the same letters."""

    text: str

    def __str__(self) -> str:
        return self.text


Scalar = float | int | Id | str | Term
"""What E, M and L are made of."""


class Elements(tuple[Scalar, ...]):
    """The elements of an E in stored order; `removed`: those that were there once."""

    removed: tuple[Scalar, ...]

    def __new__(cls, present: Iterable[Scalar] = (), removed: Iterable[Scalar] = ()) -> Elements:
        """A set of these elements."""
        made = super().__new__(cls, present)
        made.removed = tuple(removed)
        return made


class Pairs(dict[Scalar, Scalar]):
    """The pairs of an M; `removed`: keys whose pairs were removed.

    The integer 1 and the float 1.0 are one key of a dictionary, and so they are one here.
    """

    def __init__(self, present: Iterable[tuple[Scalar, Scalar]] = (), removed: Iterable[Scalar] = ()) -> None:
        super().__init__(present)
        self.removed = tuple(removed)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Bytes that do not parse as the type of their field."""

    raw: bytes


Value = Scalar | Elements | Pairs | dict[int, int] | tuple[Scalar, ...] | Unreadable


def read_value(letter: str, value: bytes) -> Value:
    """The Python value of a field's bare value; `Unreadable` where it does not parse as its type."""
    read = _READ.get(letter)
    try:
        check_value(letter, value)
        return read(value) if read is not None else Unreadable(value)
    except ChotkiError:
        return Unreadable(value)


def write_value(letter: str, value: object) -> bytes:
    """The unstamped bare value for a field of this type; `ValueRefused` when the type cannot say it.

    Takes what `read_value` gives; E any iterable of scalars, M any mapping of them, R and T also text.
    """
    write = _WRITE.get(letter)
    if write is None:
        raise ValueRefused(f"nothing is written into a field of type {letter}")
    try:
        return write(value)
    except (TypeError, ValueError, AttributeError, ChotkiError) as error:
        raise ValueRefused(f"a field of type {letter} cannot take {value!r:.100}: {error}") from error


def value_from_text(letter: str, text: str) -> bytes:
    """The unstamped bare value that a text says (reference 3.4); `TextMalformed` when it says none.

    An S need not stand in quotes here.
    """
    if letter == "S" and not text.startswith('"'):
        return write_value("S", text)
    return parse_text(letter, text)


def plain_value(value: Value | None) -> Any:
    """The value as JSON has it: IDs and terms as text, an E as a list, an M as an object by text of keys."""
    match value:
        case Id() | Term():
            return str(value)
        case float() if not math.isfinite(value):
            return str(value)
        case dict():
            return {str(key): plain_value(one) for key, one in value.items()}
        case tuple():
            return [plain_value(one) for one in value]
        case Unreadable():
            return {"unreadable": value.raw.hex()}
        case _:
            return value


# Reading.


def _read_scalar(letter: str, data: bytes) -> Scalar:
    return _READ_SCALAR[letter](data)


_READ_SCALAR: Final[Mapping[str, Callable[[bytes], Scalar]]] = {
    "F": unpack_float,
    "I": unpack_int,
    "R": Id.unzip,
    "S": lambda data: data.decode("utf-8", "replace"),
    "T": lambda data: Term(data.decode("utf-8", "replace")),
}


def _read_elements(value: bytes) -> Elements:
    present: list[Scalar] = []
    removed: list[Scalar] = []
    for code, raw, _, data, _ in elements(value):
        # An odd revision is a negative one: the element was removed.
        (removed if raw & 1 else present).append(_read_scalar(chr(code), data))
    return Elements(present, removed)


def _read_pairs(value: bytes) -> Pairs:
    # Of a key that is there twice the last occurrence counts.
    found = {(key[0], key[3]): (key, part) for key, part in pairs(value)}
    present: list[tuple[Scalar, Scalar]] = []
    removed: list[Scalar] = []
    for key, part in found.values():
        name = _read_scalar(chr(key[0]), key[3])
        if key[1] & 1 or part[1] & 1 or not part[3]:
            removed.append(name)
        else:
            present.append((name, _read_scalar(chr(part[0]), part[3])))
    return Pairs(present, removed)


def _read_list(value: bytes) -> tuple[Scalar, ...]:
    return tuple(_read_scalar(chr(code), data) for code, _, _, data, _ in elements(value))


def _reader_of(letter: str) -> Callable[[bytes], Value]:
    return lambda value: _read_scalar(letter, read_first(value)[2])


_READ: Final[Mapping[str, Callable[[bytes], Value]]] = {
    **{letter: _reader_of(letter) for letter in FIRST_LETTERS},
    "N": natural_sum,
    "Z": counter_sum,
    "E": _read_elements,
    "M": _read_pairs,
    "L": _read_list,
    "V": parse_vector,
    "O": Id.unzip,
}


# Writing.


def _integer(value: object, least: int, most: int) -> int:
    if type(value) is not int:
        raise TypeError("it is no integer")
    if not least <= value <= most:
        raise ValueError(f"it is not between {least} and {most}")
    return value


def _float(value: object) -> bytes:
    if type(value) not in (float, int):
        raise TypeError("it is no number")
    return pack_float(float(value))  # type: ignore[arg-type]


def _text(value: object) -> bytes:
    if not isinstance(value, str):
        raise TypeError("it is no text")
    return value.encode()


def _id(value: object) -> bytes:
    return (value if isinstance(value, Id) else read_id(_text(value).decode(), Compat.DEFAULT)).zip()


_WRITE_SCALAR: Final[Mapping[str, Callable[[object], bytes]]] = {
    "F": _float,
    "I": lambda value: pack_int(_integer(value, _I64_MIN, _I64_MAX)),
    "R": _id,
    "S": _text,
    "T": lambda value: _text(value.text if isinstance(value, Term) else value),
}


def _part(value: object) -> tuple[int, bytes]:
    """The letter's code and the value bytes of an element, by the type of the Python value."""
    for kind, letter in ((Id, "R"), (Term, "T"), (str, "S"), (float, "F")):
        if isinstance(value, kind):
            return ord(letter), _WRITE_SCALAR[letter](value)
    return ord("I"), _WRITE_SCALAR["I"](value)


def _write_elements(value: object) -> bytes:
    if not isinstance(value, Iterable) or isinstance(value, (str, bytes, Mapping, Id)):
        raise TypeError("it is no set of values")
    once = {data: code for code, data in map(_part, value)}
    return b"".join(write_element(once[data], 0, 0, data) for data in sorted(once))


def _write_pairs(value: object) -> bytes:
    if not isinstance(value, Mapping):
        raise TypeError("it is no mapping")
    found = sorted((_part(key), _part(one)) for key, one in value.items())
    if any(not data for _, (_, data) in found):
        raise ValueError("a pair whose value is 0, 0-0 or empty is a removed one to every replica")
    return b"".join(write_element(code, 0, 0, data) for pair in found for code, data in pair)


def _write_vector(value: object) -> bytes:
    if not isinstance(value, Mapping):
        raise TypeError("it is no mapping of sources")
    return write_vector({_integer(src, 0, U64_MAX): _integer(pro, 0, PRO_MASK) for src, pro in value.items()})


def _writer_of(letter: str) -> Callable[[object], bytes]:
    return lambda value: write_first(0, 0, _WRITE_SCALAR[letter](value))


_WRITE: Final[Mapping[str, Callable[[object], bytes]]] = {
    **{letter: _writer_of(letter) for letter in FIRST_LETTERS},
    "N": lambda value: parse_text("N", str(_integer(value, 0, U64_MAX))),
    "Z": lambda value: parse_text("Z", str(_integer(value, _I64_MIN, _I64_MAX))),
    "E": _write_elements,
    "M": _write_pairs,
    "V": _write_vector,
}
