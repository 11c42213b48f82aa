"""Converts a field's bare value to a Python value, and that to JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from culm_models.chotki.errors import ChotkiError
from culm_models.chotki.ids import Id
from culm_models.chotki.rdx import check_value, parse_vector
from culm_models.chotki.rdx.diff import counter_sum, natural_sum
from culm_models.chotki.rdx.first import FIRST_LETTERS, elements, pairs, read_first
from culm_topics.chotki.values.scalars import (
    WRITE,
    Elements,
    Pairs,
    Scalar,
    Term,
    Unreadable,
    Value,
    read_scalar,
)


def read_value(letter: str, value: bytes) -> Value:
    """Return the Python value of a field's bare value; `Unreadable` if it does not parse as its type."""
    read = _READ.get(letter)
    try:
        check_value(letter, value)
        return read(value) if read is not None else Unreadable(value)
    except ChotkiError:
        return Unreadable(value)


def _read_elements(value: bytes) -> Elements:
    present: list[Scalar] = []
    removed: list[Scalar] = []
    for code, raw, _, data, _ in elements(value):
        # An odd revision is a negative one: the element was removed.
        (removed if raw & 1 else present).append(read_scalar(chr(code), data))
    return Elements(present, removed)


def read_pairs(value: bytes) -> Pairs:
    """Return the pairs of an M that parses."""
    # If a key occurs twice, the last occurrence counts.
    unique = {(key[0], key[3]): (key, part) for key, part in pairs(value)}
    present: list[tuple[Scalar, Scalar]] = []
    removed: list[Scalar] = []
    for key, part in unique.values():
        name = read_scalar(chr(key[0]), key[3])
        if key[1] & 1 or part[1] & 1 or not part[3]:
            removed.append(name)
        else:
            present.append((name, read_scalar(chr(part[0]), part[3])))
    return Pairs(present, removed)


def _read_list(value: bytes) -> tuple[Scalar, ...]:
    return tuple(read_scalar(chr(code), data) for code, _, _, data, _ in elements(value))


def _reader_of(letter: str) -> Callable[[bytes], Value]:
    return lambda value: read_scalar(letter, read_first(value)[2])


_READ: Final[Mapping[str, Callable[[bytes], Value]]] = {
    **{letter: _reader_of(letter) for letter in FIRST_LETTERS},
    "N": natural_sum,
    "Z": counter_sum,
    "E": _read_elements,
    "M": read_pairs,
    "L": _read_list,
    "V": parse_vector,
    "O": Id.unzip,
}


def plain_value(value: Value | None) -> Any:
    """Return the value for JSON: IDs and terms as text, an E as a list, an M as an object by text of keys.

    An M whose keys have equal texts is a list of pairs, in which a key that is an ID or a term is `{"R": …}`
    or `{"T": …}`. A text that is not UTF-8 is `{"bytes": …}`, in hex.
    """
    match value:
        case Id():
            return str(value)
        case Term():
            return plain_value(value.text)
        case str():
            return value if _is_utf8(value) else {"bytes": WRITE["S"](value).hex()}
        case float() if not math.isfinite(value):
            return str(value)
        case Pairs():
            texts = {str(key) for key in value}
            if len(texts) == len(value) and all(map(_is_utf8, texts)):
                return {str(key): plain_value(element) for key, element in value.items()}
            return [[_plain_key(key), plain_value(element)] for key, element in value.items()]
        case dict():
            return {str(key): plain_value(element) for key, element in value.items()}
        case tuple():
            return [plain_value(element) for element in value]
        case Unreadable():
            return {"unreadable": value.raw.hex()}
        case _:
            return value


def _plain_key(key: Scalar) -> Any:
    letter = "R" if isinstance(key, Id) else "T" if isinstance(key, Term) else None
    return plain_value(key) if letter is None else {letter: plain_value(key)}


def _is_utf8(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text)
