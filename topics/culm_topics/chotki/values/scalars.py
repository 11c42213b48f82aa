"""Python values of fields: floats, integers, IDs, strings and terms, and sets and maps of these."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, Final

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
"""An element of an E, M or L."""
Part = tuple[int, bytes]
"""An element in written form: the code of its letter, and its value bytes."""


def read_scalar(letter: str, data: bytes) -> Scalar:
    """Return the value of these bytes."""
    return _READ[letter](data)


_READ: Final[Mapping[str, Callable[[bytes], Scalar]]] = {
    "F": unpack_float,
    "I": unpack_int,
    "R": Id.unzip,
    "S": lambda data: data.decode("utf-8", _ESCAPED),
    "T": lambda data: Term(data.decode("utf-8", _ESCAPED)),
}


def integer(value: object, minimum: int, maximum: int) -> int:
    """Return an integer in this range. Raises `TypeError`, `ValueError`."""
    if type(value) is not int:
        raise TypeError("it is no integer")
    if not minimum <= value <= maximum:
        raise ValueError(f"it is not between {minimum} and {maximum}")
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
    """Return the letter's code and the value bytes of an element, by the type of the Python value."""
    for kind, letter in ((Id, "R"), (Term, "T"), (str, "S"), (float, "F")):
        if isinstance(value, kind):
            return ord(letter), WRITE[letter](value)
    return ord("I"), WRITE["I"](value)


def reread(code: int, data: bytes) -> Part:
    """Return the part that is written for the value of an element."""
    return part_of(read_scalar(chr(code), data))


class Elements(tuple[Scalar, ...]):
    """The elements of an E in stored order; `removed` are elements that were removed."""

    removed: tuple[Scalar, ...]

    def __new__(cls, present: Iterable[Scalar] = (), removed: Iterable[Scalar] = ()) -> Elements:
        """Return a set of these elements."""
        made = super().__new__(cls, present)
        made.removed = tuple(removed)
        return made


class Pairs(MutableMapping[Scalar, Scalar]):
    """The pairs of an M; `removed` are keys whose pairs were removed.

    Keys keep their types: the integer 1, the float 1.0, the string "1" and the term 1 are four keys, while a
    dictionary has one key for the first two. To change a value, change a `copy`, not a dictionary made of it.
    """

    def __init__(
        self,
        present: Mapping[Scalar, Scalar] | Iterable[tuple[Scalar, Scalar]] = (),
        removed: Iterable[Scalar] = (),
    ) -> None:
        self.removed = tuple(removed)
        self._pairs: dict[Part, tuple[Scalar, Scalar]] = {}
        for key, value in present.items() if isinstance(present, Mapping) else present:
            self[key] = value

    def copy(self) -> Pairs:
        """Return a copy to change."""
        return Pairs(self, self.removed)

    def __getitem__(self, key: Scalar) -> Scalar:
        return self._pairs[_key(key)][1]

    def __setitem__(self, key: Scalar, value: Scalar) -> None:
        self._pairs[part_of(key)] = key, value

    def __delitem__(self, key: Scalar) -> None:
        del self._pairs[_key(key)]

    def __iter__(self) -> Iterator[Scalar]:
        return (key for key, _ in self._pairs.values())

    def __len__(self) -> int:
        return len(self._pairs)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        try:
            return written_pairs(self) == written_pairs(other)
        except (TypeError, ValueError):
            return False

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        pairs = ", ".join(f"{key!r}: {value!r}" for key, value in self._pairs.values())
        return f"Pairs({{{pairs}}}, removed={self.removed!r})"


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Bytes that do not parse as the type of their field."""

    raw: bytes


Value = Scalar | Elements | Pairs | dict[int, int] | tuple[Scalar, ...] | Unreadable


def _key(value: object) -> Part:
    """Return the part of a key. Raises `KeyError` if its type cannot be a key."""
    try:
        return part_of(value)
    except (TypeError, ValueError) as error:
        raise KeyError(value) from error


def written_pairs(value: Mapping[Any, Any]) -> dict[Part, Part]:
    """Return the pairs of a mapping in written form.

    Raises `TypeError`, `ValueError` if an M cannot hold them.
    """
    return {part_of(key): part_of(element) for key, element in value.items()}
