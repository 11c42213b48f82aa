"""Stamping of a value with the source of the packet that contains it (reference 3.3)."""

from __future__ import annotations

from culm_models.chotki.rdx.first import FIRST_LETTERS, elements, read_stamp, write_element, write_first


def stamp(letter: str, value: bytes, src: int) -> bytes:
    """Set ``src`` in the stamps of FIRST, E, L and M; values of other types name their sources themselves.

    A value that already has that source is not changed, nor a series up to its first other source.
    """
    if letter in FIRST_LETTERS:
        current = read_stamp(value)
        if current is None or current[1] == src:
            return value
        return write_first(current[0], src, value[current[2] :])
    if letter not in "ELM":
        return value
    again: bytearray | None = None
    done = 0
    for code, raw, element_src, part, end in elements(value):
        if again is None and element_src != src:
            again = bytearray(value[:done])
        if again is not None:
            again += write_element(code, raw, src, part)
        done = end
    return value if again is None else bytes(again + value[done:])
