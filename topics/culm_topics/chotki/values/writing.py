"""Converts a Python value, or a text, to the bare value of a field."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from culm_models.chotki.errors import ChotkiError
from culm_models.chotki.ids import PRO_MASK, Id
from culm_models.chotki.rdx import parse_text, write_vector
from culm_models.chotki.rdx.first import FIRST_LETTERS, elements, pairs, write_element, write_first
from culm_models.chotki.rdx.scalars import I64_MAX, I64_MIN
from culm_models.chotki.zip import U64_MAX
from culm_topics.chotki.errors import ValueRefused
from culm_topics.chotki.values.reading import read_pairs, read_value
from culm_topics.chotki.values.scalars import (
    WRITE,
    Part,
    Unreadable,
    Value,
    integer,
    part_of,
    reread,
    written_pairs,
)


def write_value(letter: str, value: object, old: bytes = b"") -> bytes:
    """Return the unstamped bare value for a field of this type. Raises `ValueRefused` if it cannot hold it.

    Accepts the results of `read_value`; for E any iterable of scalars, for M any mapping of them, for R and T
    also text. Parts that are equal to parts of `old`, the present value, are written as they are there. So a
    value that was read and written back changes nothing, and removing an element from a set or a map leaves
    the rest unchanged.
    """
    if isinstance(value, Iterator):
        value = tuple(value)
    present = read_value(letter, old)
    if _reads_like(letter, value, present):
        return old
    write = _WRITE.get(letter)
    if write is None:
        raise ValueRefused(f"nothing is written into a field of type {letter}")
    try:
        return write(value, b"" if isinstance(present, Unreadable) else old)
    except (TypeError, ValueError, AttributeError, ChotkiError) as error:
        raise ValueRefused(f"a field of type {letter} cannot take {value!r:.100}: {error}") from error


def value_from_text(letter: str, text: str, old: bytes = b"") -> bytes:
    """Return the unstamped bare value of a text (reference 3.4). Raises `TextMalformed`.

    An S need not be quoted here. `old` is as in `write_value`.
    """
    if letter == "S" and not text.startswith('"'):
        return write_value("S", text, old)
    parsed = parse_text(letter, text)
    return write_value(letter, read_value(letter, parsed), old) if letter in "EM" else parsed


def _reads_like(letter: str, value: object, present: Value) -> bool:
    """Whether both values are equal, types of elements included."""
    try:
        return _comparable(letter, value) == _comparable(letter, present)
    except (TypeError, ValueError, AttributeError, ChotkiError):
        return False


def _comparable(letter: str, value: object) -> object:
    """Return a value in a form for comparison."""
    if isinstance(value, Unreadable) or letter == "V":
        return value
    if letter in "NZ":
        return integer(value, I64_MIN, U64_MAX)
    if letter in FIRST_LETTERS:
        return WRITE[letter](value)
    if letter == "M":
        return written_pairs(_mapping(value))
    parts = [part_of(element) for element in _elements_of(value)]
    return parts if letter == "L" else {data for _, data in parts}


def _elements_of(value: object) -> Iterable[object]:
    if not isinstance(value, Iterable) or isinstance(value, (str, bytes, Mapping, Id)):
        raise TypeError("it is no set of values")
    return value


def _mapping(value: object) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise TypeError("it is no mapping")
    return value


def _write_elements(value: object, old: bytes) -> bytes:
    # An odd revision is a negative one: the element was removed.
    known: tuple[dict[Part, list[Part]], ...] = defaultdict(list), defaultdict(list)
    for code, raw, _, data, _ in elements(old):
        known[raw & 1][reread(code, data)].append((code, data))
    wanted = [
        part
        for wanted_part in map(part_of, _elements_of(value))
        for part in known[0].get(wanted_part) or known[1].get(wanted_part) or [wanted_part]
    ]
    once = {data: code for code, data in wanted}
    return b"".join(write_element(once[data], 0, 0, data) for data in sorted(once))


def _write_pairs(value: object, old: bytes) -> bytes:
    wanted = written_pairs(_mapping(value))
    if any(not data for _, data in wanted.values()):
        raise ValueError("every replica treats a pair whose value is 0, 0-0 or empty as removed")
    shown = {part_of(key): part_of(element) for key, element in read_pairs(old).items()}
    written: dict[Part, Part] = {}
    for key, part in pairs(old):
        name, now = reread(key[0], key[3]), (part[0], part[3])
        if name in wanted and wanted[name] != shown.get(name):
            now = wanted[name]
        elif name not in wanted and name in shown:
            continue
        # Otherwise unchanged, also if it is removed already.
        written[key[0], key[3]] = now
    known = {reread(*key) for key in written}
    written |= {name: part for name, part in wanted.items() if name not in known}
    return b"".join(
        write_element(code, 0, 0, data) for pair in sorted(written.items()) for code, data in pair
    )


def _write_vector(value: object, _: bytes) -> bytes:
    entries = _mapping(value).items()
    return write_vector({integer(src, 0, U64_MAX): integer(pro, 0, PRO_MASK) for src, pro in entries})


def _writer_of(letter: str) -> Callable[[object, bytes], bytes]:
    return lambda value, _: write_first(0, 0, WRITE[letter](value))


_WRITE: Final[Mapping[str, Callable[[object, bytes], bytes]]] = {
    **{letter: _writer_of(letter) for letter in FIRST_LETTERS},
    "N": lambda value, _: parse_text("N", str(integer(value, 0, U64_MAX))),
    "Z": lambda value, _: parse_text("Z", str(integer(value, I64_MIN, I64_MAX))),
    "E": _write_elements,
    "M": _write_pairs,
    "V": _write_vector,
}
