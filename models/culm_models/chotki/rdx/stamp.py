"""Stamping a value with the source of the packet that brought it (reference 3.3)."""

from __future__ import annotations

from culm_models.chotki.rdx.first import FIRST_LETTERS, elements, read_stamp, write_element, write_first


def stamp(letter: str, value: bytes, src: int) -> bytes:
    """The value with ``src`` in its stamps: FIRST, E, L and M; all others name their sources themselves.

    What has that source already stays byte for byte, of a series up to the first element that has another.
    """
    if letter in FIRST_LETTERS:
        found = read_stamp(value)
        if found is None or found[1] == src:
            return value
        return write_first(found[0], src, value[found[2] :])
    if letter not in "ELM":
        return value
    again: bytearray | None = None
    done = 0
    for code, raw, found_src, part, end in elements(value):
        if again is None and found_src != src:
            again = bytearray(value[:done])
        if again is not None:
            again += write_element(code, raw, src, part)
        done = end
    return value if again is None else bytes(again + value[done:])
