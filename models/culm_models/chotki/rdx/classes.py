"""Classes: the definitions of the fields that the objects of a class have (reference 1.4, type C)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from culm_models.chotki.compat import Compat
from culm_models.chotki.errors import ValueMalformed
from culm_models.chotki.rdx.first import elements, write_element
from culm_models.chotki.zip import unzigzag, zigzag

NO_INDEX: Final = 0
HASH_INDEX: Final = ord("H")
"""Index type of a unique field. Never create an equal value: the Go replica refuses the second object."""
FULL_SCAN_INDEX: Final = ord("F")

_T: Final = ord("T")


@dataclass(frozen=True, slots=True)
class ClassField:
    """A field of a class: its number, type and name; ``index`` may be any byte."""

    offset: int
    letter: str
    name: str
    index: int = NO_INDEX


REFERENCE_FIELD: Final = ClassField(0, "R", "_ref")
"""The class of an object; every list of fields begins with it."""


def parse_class(value: bytes, *, compat: Compat = Compat.DEFAULT) -> list[ClassField]:
    """Return the fields in the order of their entries; of two names for one field the later one counts.

    With `Compat.GO` both are returned, as in the Go replica's list.

    Reading stops at the first entry that is not a term or is empty. Raises `ValueMalformed` if an entry
    consists of a type only: such an entry ends the Go replica's process.
    """
    fields = [REFERENCE_FIELD]
    for code, raw, _, entry, _ in elements(value):
        if code != _T or not entry:
            break
        offset = unzigzag(raw)
        if not is_type(entry[0]):
            field = ClassField(offset, "S", entry.decode("utf-8", "replace"))
        elif len(entry) == 1:
            raise ValueMalformed("a class has an entry of a type without index and name")
        else:
            field = ClassField(offset, chr(entry[0]), entry[2:].decode("utf-8", "replace"), entry[1])
        fields.append(field)
    if compat is Compat.GO:
        return fields
    return [REFERENCE_FIELD, *{(field.offset, field.letter): field for field in fields[1:]}.values()]


def write_class(fields: Iterable[ClassField]) -> bytes:
    """Encode these fields as entries, sorted by offset and name."""
    entries = {
        (zigzag(field.offset), bytes([ord(field.letter), field.index]) + field.name.encode())
        for field in fields
        if field != REFERENCE_FIELD
    }
    return b"".join(write_element(_T, raw, 0, entry) for raw, entry in sorted(entries))


def is_type(code: int) -> bool:
    """Whether a byte is a letter A to Z."""
    return 0x41 <= code <= 0x5A
