"""Classes: which fields the objects of a class have (reference 1.4, type C)."""

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
"""The Go replica refuses a second object with one value in such a field: never make one."""
FULL_SCAN_INDEX: Final = ord("F")

_T: Final = ord("T")


@dataclass(frozen=True, slots=True)
class ClassField:
    """A field of a class: its number, type and name; ``index`` is any byte."""

    offset: int
    letter: str
    name: str
    index: int = NO_INDEX


REFERENCE_FIELD: Final = ClassField(0, "R", "_ref")
"""The class of an object, which every list of fields begins with."""


def parse_class(value: bytes, *, compat: Compat = Compat.DEFAULT) -> list[ClassField]:
    """The fields in the order of their entries; of two names for one field the later holds.

    With `Compat.GO` both are there, as in the Go replica's list.

    Reading stops at the first entry that is no term or is empty. `ValueMalformed` on an entry that is a type
    and nothing else: it ends the Go replica's process.
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
    """The entries of these fields, by offset and name."""
    entries = {
        (zigzag(field.offset), bytes([ord(field.letter), field.index]) + field.name.encode())
        for field in fields
        if field != REFERENCE_FIELD
    }
    return b"".join(write_element(_T, raw, 0, entry) for raw, entry in sorted(entries))


def is_type(code: int) -> bool:
    """Whether a byte is a letter A to Z."""
    return 0x41 <= code <= 0x5A
