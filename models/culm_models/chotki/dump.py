"""A store as text in the Go replica's format, so that a diff tool can compare the two (reference 3.4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from culm_models.chotki.errors import ValueMalformed
from culm_models.chotki.ids import OBJECT_KEY, VECTOR_KEY, Id, split_object_key
from culm_models.chotki.rdx.text import print_text


def dump(store: Mapping[bytes, bytes]) -> str:
    """Return the whole text of a store: its fields, an empty line, its vectors, each in key order."""
    return "".join(dump_lines(sorted(store.items())))


def dump_lines(entries: Iterable[tuple[bytes, bytes]]) -> Iterable[str]:
    """Yield the text of `dump` line by line, from a store's keys and values in key order."""
    divided = False
    for key, value in entries:
        if key[0] == OBJECT_KEY:
            id, letter = split_object_key(key)
            yield f"{id}.{letter}:\t{print_field(letter, value)}\n"
        elif key[0] == VECTOR_KEY:
            if not divided:
                yield "\n"
                divided = True
            block = Id(int.from_bytes(key[1:9], "big"), int.from_bytes(key[9:17], "big"))
            yield f"{block}  ->  {print_text('V', value)}\n"
    if not divided:
        yield "\n"


def print_field(letter: str, value: bytes) -> str:
    """Return a field's value as in a store's text: sets and unreadable values are printed in hex."""
    if letter == "E":
        return value.hex()
    try:
        return print_text(letter, value)
    except ValueMalformed:
        return value.hex()
