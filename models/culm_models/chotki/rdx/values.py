"""Checks that bytes parse as a value of their type (reference 1.4).

All received values are checked: bytes that do not parse never reach another peer, since some of them end the
Go replica's process. Order, repetition and UTF-8 are not checked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from culm_models.chotki.compat import Compat
from culm_models.chotki.errors import FieldLetterUnknown, PairLength, ValueMalformed
from culm_models.chotki.rdx.classes import is_type
from culm_models.chotki.rdx.first import LOWEST_RAW, read_stamp
from culm_models.chotki.tlv import INCOMPLETE, TINY, TINY_MAX, probe, spans
from culm_models.chotki.zip import PAIR_WIDTHS, WIDTH_MAX

_F, _I, _R, _T, _V = map(ord, "FIRTV")
_FIRST_CODES: Final = frozenset(map(ord, "FIRST"))
_TINY: Final = ord(TINY)
_USUAL_STAMPS: Final = frozenset(size for size in PAIR_WIDTHS if size <= WIDTH_MAX)
"""Lengths of tiny stamps whose revision cannot be the lowest."""
_USUAL_NUMBERS: Final = frozenset(size for size in PAIR_WIDTHS if size <= WIDTH_MAX)
"""Lengths that both a number and a reference may have."""


def check_value(letter: str, value: bytes, *, compat: Compat = Compat.DEFAULT) -> None:
    """Check that ``value`` parses as its type.

    Raises `ValueMalformed` if it does not, `PairLength` if only the length of an id or a stamp is impossible
    (accepted with `Compat.GO`), and `FieldLetterUnknown` if there is no such type.
    """
    check = _CHECKS.get(letter)
    if check is None:
        raise FieldLetterUnknown(f"there is no type {letter!r}")
    check(value, compat)


def _check_stamp(data: bytes, at: int, end: int, compat: Compat) -> int:
    """Check the stamp at ``at`` and return its end."""
    size = data[at] - 0x30 if at < end else -1
    stop = at + 1 + size
    if not 0 <= size <= TINY_MAX:
        code, header_length, size = probe(data, at) if at < end else INCOMPLETE
        stop = at + header_length + size if code == _T else end + 1
    if stop > end:
        raise ValueMalformed(f"no whole stamp at byte {at} of {end}")
    if size not in PAIR_WIDTHS and compat is Compat.DEFAULT:
        raise PairLength(f"a stamp of {size} bytes")
    return stop


def _check_first(code: int, data: bytes, at: int, end: int, compat: Compat) -> None:
    """Check a FIRST of this letter's code between ``at`` and ``end``."""
    size = end - _check_stamp(data, at, end, compat)
    if code == _R:
        if size not in PAIR_WIDTHS and compat is Compat.DEFAULT:
            raise PairLength(f"a reference of {size} bytes")
    elif code in (_F, _I) and size > WIDTH_MAX:
        raise ValueMalformed(f"a number of {size} bytes")


def _check_of(code: int) -> Callable[[bytes, Compat], None]:
    def check(data: bytes, compat: Compat) -> None:
        # The usual form, without a call: a tiny stamp, and a length that every type may have.
        size = len(data)
        stamp_size = data[0] - 0x30 if size else -1
        rest = size - stamp_size - 1
        if stamp_size in _USUAL_STAMPS and (rest in _USUAL_NUMBERS or (is_free and rest >= 0)):
            return
        _check_first(code, data, 0, size, compat)
        stamp = read_stamp(data)
        if stamp is not None and stamp[0] == LOWEST_RAW and compat is Compat.DEFAULT:
            raise ValueMalformed("a stamp of revision -2^63, which no merge takes")

    is_free = code not in (_F, _I, _R)
    return check


def _check_natural(data: bytes, compat: Compat) -> None:
    for code, start, end in spans(data, refuse=ValueMalformed):
        if code != _T:
            raise ValueMalformed("an N has a record that is no T")
        if _check_stamp(data, start, end, compat) != end:
            raise ValueMalformed("an N has a record with more than a pair")


def _check_integer_counter(data: bytes, compat: Compat) -> None:
    for code, start, end in spans(data, refuse=ValueMalformed):
        if code != _I:
            raise ValueMalformed("a Z has a record that is no I")
        _check_first(_I, data, start, end, compat)


def _check_elements(data: bytes, compat: Compat) -> int:
    """Check the elements and return their number."""
    count = 0
    for code, start, end in spans(data, refuse=ValueMalformed):
        if code not in _FIRST_CODES:
            raise ValueMalformed(f"an element with the letter {chr(code)}")
        _check_first(code, data, start, end, compat)
        count += 1
    return count


def _check_map(data: bytes, compat: Compat) -> None:
    if _check_elements(data, compat) % 2:
        raise ValueMalformed("an M has a key without a value")


def _check_class(data: bytes, compat: Compat) -> None:
    for code, start, end in spans(data, refuse=ValueMalformed):
        if code != _T:
            raise ValueMalformed("a C has an entry that is no T")
        at = _check_stamp(data, start, end, compat)
        if end - at == 1 and is_type(data[at]):
            raise ValueMalformed("a C has an entry of a type without index and name")


def _check_vector(data: bytes, compat: Compat) -> None:
    for code, start, end in spans(data, refuse=ValueMalformed):
        if code not in (_V, _TINY):
            raise ValueMalformed("a V has an entry that is no V")
        _check_id(data[start:end], compat)


def _check_id(data: bytes, compat: Compat) -> None:
    if len(data) not in PAIR_WIDTHS and compat is Compat.DEFAULT:
        raise PairLength(f"an ID of {len(data)} bytes")


_CHECKS: Final[dict[str, Callable[[bytes, Compat], object]]] = {
    **{letter: _check_of(ord(letter)) for letter in "FIRST"},
    "N": _check_natural,
    "Z": _check_integer_counter,
    "E": _check_elements,
    "L": _check_elements,
    "M": _check_map,
    "C": _check_class,
    "V": _check_vector,
    "O": _check_id,
    "Y": _check_id,
}

FIELD_LETTERS: Final = frozenset(_CHECKS)
"""The letters of all field types, with C, O and Y of the objects themselves."""
