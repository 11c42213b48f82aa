"""Values as text and back (reference 3.4): a parsed value has empty stamps, numbers are decimal.

By default an unknown text is refused with `TextMalformed`. With `Compat.GO` it becomes the value that the Go
replica makes of it, and is refused only if that replica reports an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from culm_models.chotki.compat import Compat
from culm_models.chotki.errors import TextMalformed
from culm_models.chotki.ids import Id
from culm_models.chotki.rdx.braces import read_map, read_set, write_map, write_set
from culm_models.chotki.rdx.diff import natural_sum
from culm_models.chotki.rdx.first import EMPTY_STAMP, FIRST_LETTERS, read_first, write_element, write_stamp
from culm_models.chotki.rdx.scalars import I64_MAX, I64_MIN, READ, WRITE, read_id, read_integer, refusal
from culm_models.chotki.rdx.version_vector import parse_vector, write_vector
from culm_models.chotki.tlv import record
from culm_models.chotki.zip import U64_MAX, pack_int


def parse_text(letter: str, text: str, *, compat: Compat = Compat.DEFAULT) -> bytes:
    """Parse the text of a value of this type."""
    if letter in FIRST_LETTERS:
        return EMPTY_STAMP + READ[letter](text, compat)
    read = _READ.get(letter)
    if read is None:
        raise TextMalformed(f"no text form exists for a value of type {letter!r}")
    return read(text, compat)


def print_text(letter: str, value: bytes) -> str:
    """Return the text of a value, hex for an unknown type. Raises `ValueMalformed` if it has no text."""
    if letter in FIRST_LETTERS:
        return WRITE[letter](read_first(value)[2])
    return _WRITE.get(letter, bytes.hex)(value)


def _read_natural(text: str, compat: Compat) -> bytes:
    return record("T", write_stamp(read_integer(text, 0, U64_MAX, signs=False), 0))


def _read_counter(text: str, compat: Compat) -> bytes:
    return write_element(ord("I"), 0, 0, pack_int(read_integer(text, I64_MIN, I64_MAX)))


def _read_vector(text: str, compat: Compat) -> bytes:
    if not text:
        return b""
    # The Go replica never returns from a comma.
    texts = [text] if compat is Compat.GO else text.split(",")
    entries: dict[int, int] = {}
    for entry_text in texts:
        src, pro = read_id(entry_text, compat)
        entries[src] = max(pro, entries.get(src, 0))
    return write_vector(entries)


def _read_hex(text: str, compat: Compat) -> bytes:
    try:
        data = bytes.fromhex(text)
    except ValueError:
        raise refusal(text, "hex") from None
    if 2 * len(data) != len(text):
        raise refusal(text, "hex without blanks")
    return data


def _read_plain_id(text: str, compat: Compat) -> bytes:
    return read_id(text, compat).zip()


def _write_vector(value: bytes) -> str:
    return ",".join(str(Id(*entry)) for entry in sorted(parse_vector(value).items()))


def _write_plain_id(value: bytes) -> str:
    return str(Id.unzip(value, compat=Compat.GO))


_READ: Final[dict[str, Callable[[str, Compat], bytes]]] = {
    "N": _read_natural,
    "Z": _read_counter,
    "E": read_set,
    "M": read_map,
    "V": _read_vector,
    "L": _read_hex,
    "O": _read_plain_id,
    "Y": _read_plain_id,
}
_WRITE: Final[dict[str, Callable[[bytes], str]]] = {
    "N": lambda value: str(natural_sum(value)),
    "E": write_set,
    "M": write_map,
    "C": write_map,
    "V": _write_vector,
    "O": _write_plain_id,
    "Y": _write_plain_id,
}
