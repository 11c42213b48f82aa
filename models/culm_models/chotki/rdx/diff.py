"""The parts of a value that a peer is missing, and the operand that turns one value into another.

Reference 3.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from culm_models.chotki.compat import Compat
from culm_models.chotki.errors import ValueMalformed
from culm_models.chotki.rdx.first import (
    EMPTY_STAMP,
    FIRST_LETTERS,
    Element,
    elements,
    magnitude,
    next_raw,
    pairs,
    read_first,
    read_stamp,
    write_element,
    write_first,
    write_stamp,
)
from culm_models.chotki.rdx.version_vector import entries_beyond, parse_vector, write_vector
from culm_models.chotki.tlv import record
from culm_models.chotki.zip import U64_MAX, pack_int, unpack_int

_I: Final = ord("I")
_I64_SPAN: Final = 1 << 64


def xdiff(letter: str, value: bytes, wanted: Mapping[int, int]) -> bytes:
    """Return what a peer that is missing the sources of ``wanted`` needs of a value: all of it, or nothing.

    The numbers of ``wanted`` do not matter.
    """
    if letter in FIRST_LETTERS:
        stamp = read_stamp(value)
        return value if stamp is not None and stamp[1] in wanted else b""
    return b"" if letter in "OY" else value


def delta(letter: str, old: bytes, new: bytes, *, src: int = 0, compat: Compat = Compat.DEFAULT) -> bytes:
    """Return the operand that turns ``old`` into ``new``, empty if there is nothing to change.

    Its stamps have source 0, which the packet's source overwrites; the stamps of N and Z name ``src``.
    Raises `ValueMalformed` if no value of this type can become ``new``.
    """
    if letter in FIRST_LETTERS:
        return _first_delta(old, new)
    if letter == "N":
        return _natural_delta(old, new, src)
    if letter == "Z":
        return _counter_delta(old, new, src)
    if letter == "M":
        return _map_delta(old, new, compat)
    plain = _DELTAS.get(letter, _grown)
    return plain(old, new)


def outranks(letter: str, operand: bytes, old: bytes) -> bool:
    """Whether all revisions of the operand are above those that ``old`` has for the same things.

    This does not hold for a `delta` once the highest possible revision was reached: its merge changes nothing
    or leaves two values under one stamp.
    """
    known = _revisions(letter, old)
    revisions = _revisions(letter, operand)
    return all(revision > known.get(thing, -1) for thing, revision in revisions.items())


def _revisions(letter: str, value: bytes) -> dict[object, int]:
    """Return the revision of each thing that a value describes; empty for types without revisions."""
    if letter in FIRST_LETTERS:
        stamp = read_stamp(value)
        return {} if stamp is None else {letter: magnitude(stamp[0])}
    if letter == "Z":
        return {src: magnitude(raw) for _, raw, src, _, _ in elements(value)}
    if letter == "E":
        return {part: magnitude(raw) for _, raw, _, part, _ in elements(value)}
    if letter == "M":
        return {(key[0], key[3]): magnitude(key[1]) for key, _ in pairs(value)}
    return {}


def _first_delta(old: bytes, new: bytes) -> bytes:
    stamp = read_stamp(new or EMPTY_STAMP)
    if stamp is None:
        raise ValueMalformed("the new value has no stamp")
    raw, _, before = read_first(old)
    value = new[stamp[2] :]
    return b"" if value == before else write_first(next_raw(raw), 0, value)


def natural_sum(value: bytes) -> int:
    """Return the sum of an N, as 64 bits."""
    return sum(raw for _, raw, _, _, _ in elements(value)) & U64_MAX


def counter_sum(value: bytes) -> int:
    """Return the sum of a Z, as 64 bits with a sign. Raises `ValueMalformed` for numbers of over 8 bytes."""
    return _signed(sum(unpack_int(part) for _, _, _, part, _ in elements(value)))


def _signed(number: int) -> int:
    return (number + _I64_SPAN // 2) % _I64_SPAN - _I64_SPAN // 2


def _natural_delta(old: bytes, new: bytes, src: int) -> bytes:
    before, after = natural_sum(old), natural_sum(new)
    if after <= before:
        return b""
    own = max((raw for _, raw, source, _, _ in elements(old) if source == src), default=0)
    return record("T", write_stamp((own + after - before) & U64_MAX, src))


def _counter_delta(old: bytes, new: bytes, src: int) -> bytes:
    before, after = counter_sum(old), counter_sum(new)
    if after == before:
        return b""
    raw, own = max(
        ((raw, unpack_int(part)) for _, raw, source, part, _ in elements(old) if source == src),
        default=(0, 0),
    )
    return write_element(_I, next_raw(raw), src, pack_int(_signed(own + after - before)))


def _map_delta(old: bytes, new: bytes, compat: Compat) -> bytes:
    before, after = _by_key(old), _by_key(new)
    last = max(before, default=None)
    parts = []
    for key in sorted({*before, *after}):
        came = after.get(key)
        if key not in before:
            assert came is not None
            if came[1][3] or (last is not None and key < last):
                parts += [_as_came(came[0]), _as_came(came[1])]
            continue
        (_, key_raw, _, _, _), (value_code, value_raw, _, value, _) = before[key]
        if came is None:
            if not value:
                continue
            code, now = value_code, b""
        else:
            code, _, _, now, _ = came[1]
            if (code, now) == (value_code, value):
                continue
        # By default the key's stamp, which decides a merge, counts, too; correct writers stamp both alike.
        raw = value_raw if compat is Compat.GO else max(key_raw, value_raw, key=magnitude)
        parts += [write_element(key[0], next_raw(raw), 0, key[1]), write_element(code, next_raw(raw), 0, now)]
    return b"".join(parts)


def _by_key(value: bytes) -> dict[tuple[int, bytes], tuple[Element, Element]]:
    """Return the pairs of an M by key; of a repeated key the last occurrence counts."""
    return {(key[0], key[3]): (key, part) for key, part in pairs(value)}


def _as_came(element: Element) -> bytes:
    code, raw, src, value, _ = element
    return write_element(code, raw, src, value)


def _set_delta(old: bytes, new: bytes) -> bytes:
    before = {element[3]: element for element in elements(old)}
    after = {element[3]: element for element in elements(new) if not element[1] & 1}
    parts = []
    for value in sorted({*before, *after}):
        known, came = before.get(value), after.get(value)
        if known is None:
            assert came is not None
            parts.append(write_element(came[0], 0, 0, value))
        elif came is not None and known[1] & 1:
            parts.append(write_element(came[0], next_raw(known[1]), 0, value))
        elif came is None and not known[1] & 1:
            # A revision below zero is one less than the raw one of its magnitude.
            parts.append(write_element(known[0], next_raw(known[1]) - 1, 0, value))
    return b"".join(parts)


def _vector_delta(old: bytes, new: bytes) -> bytes:
    return write_vector(entries_beyond(parse_vector(new), parse_vector(old)))


def _class_delta(old: bytes, new: bytes) -> bytes:
    known = {(code, raw, entry) for code, raw, _, entry, _ in elements(old)}
    added = [element for element in elements(new) if (element[0], element[1], element[3]) not in known]
    return b"".join(map(_as_came, added))


def _only_first(old: bytes, new: bytes) -> bytes:
    """Return the delta of a class reference: an object has one class, so an existing value stays."""
    return b"" if old else new


def _grown(old: bytes, new: bytes) -> bytes:
    """Return the delta of L and of unknown types, which only grow by appending."""
    if not new.startswith(old):
        raise ValueMalformed("a value of this type can only grow")
    return new[len(old) :]


_DELTAS: Final[dict[str, Callable[[bytes, bytes], bytes]]] = {
    "E": _set_delta,
    "V": _vector_delta,
    "C": _class_delta,
    "O": _only_first,
    "Y": _only_first,
}
