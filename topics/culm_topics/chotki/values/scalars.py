"""Single values as Python values: floats, integers, IDs, strings and terms, alone or in E, M and L."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from culm_models.chotki.compat import Compat
from culm_models.chotki.ids import Id
from culm_models.chotki.rdx.scalars import I64_MAX, I64_MIN, read_id
from culm_models.chotki.zip import pack_float, pack_int, unpack_float, unpack_int

_ESCAPED: Final = "surrogateescape"


@dataclass(frozen=True, slots=True)
class Term:
    """A T: a word. It differs from the string of the same letters."""

    text: str

    def __str__(self) -> str:
        return self.text


Scalar = float | int | Id | str | Term
"""What E, M and L are made of."""
Part = tuple[int, bytes]
"""An element as it is written: the code of its letter, and its value bytes."""


def read_scalar(letter: str, data: bytes) -> Scalar:
    """The value that these bytes are."""
    return _READ[letter](data)


_READ: Final[Mapping[str, Callable[[bytes], Scalar]]] = {
    "F": unpack_float,
    "I": unpack_int,
    "R": Id.unzip,
    "S": lambda data: data.decode("utf-8", _ESCAPED),
    "T": lambda data: Term(data.decode("utf-8", _ESCAPED)),
}


def integer(value: object, least: int, most: int) -> int:
    """An integer in this range. Raises `TypeError`, `ValueError`."""
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
    return value.encode("utf-8", _ESCAPED)


def _id(value: object) -> bytes:
    return (value if isinstance(value, Id) else read_id(_text(value).decode(), Compat.DEFAULT)).zip()


WRITE: Final[Mapping[str, Callable[[object], bytes]]] = {
    "F": _float,
    "I": lambda value: pack_int(integer(value, I64_MIN, I64_MAX)),
    "R": _id,
    "S": _text,
    "T": lambda value: _text(value.text if isinstance(value, Term) else value),
}


def part_of(value: object) -> Part:
    """The letter's code and the value bytes of an element, by the type of the Python value."""
    for kind, letter in ((Id, "R"), (Term, "T"), (str, "S"), (float, "F")):
        if isinstance(value, kind):
            return ord(letter), WRITE[letter](value)
    return ord("I"), WRITE["I"](value)


def reread(code: int, data: bytes) -> Part:
    """The part that is written for what an element reads like."""
    return part_of(read_scalar(chr(code), data))
