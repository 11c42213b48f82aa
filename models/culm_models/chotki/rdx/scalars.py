"""The text of a single float, integer, reference, string or term (reference 3.4).

Readers return the bytes behind the stamp and raise `TextMalformed`; writers take these bytes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Final

from culm_models.chotki.compat import Compat
from culm_models.chotki.errors import TextMalformed
from culm_models.chotki.ids import BAD_ID, Id, read_id_text
from culm_models.chotki.zip import pack_float, pack_int, unpack_float, unpack_int

I64_MIN: Final = -(1 << 63)
I64_MAX: Final = (1 << 63) - 1

_INTEGER: Final = re.compile(r"([+-]?)0*([0-9]{1,20})")
_FLOAT: Final = re.compile(
    r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?inf(?:inity)?|nan", re.IGNORECASE
)
_ID: Final = re.compile(r"[0-9a-fA-F]+(?:-[0-9a-fA-F]+){0,2}")
_QUOTED: Final = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"', re.DOTALL)
_ESCAPE: Final = re.compile(
    r"\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|\\u([0-9a-fA-F]{4})|\\(.)", re.DOTALL
)
_ESCAPED: Final = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_ESCAPES: Final = {
    **{code: f"\\u{code:04x}" for code in range(0x20)},
    ord('"'): '\\"',
    ord("\\"): "\\\\",
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    ord("\t"): "\\t",
}
_FIRST_SURROGATE, _LAST_SURROGATE = 0xD800, 0xDFFF


def refusal(text: str, what: str) -> TextMalformed:
    """Return the error for a text that is not ``what`` it should be."""
    return TextMalformed(f"{text[:100]!r} is not {what}")


def read_integer(text: str, least: int, greatest: int, *, signs: bool = True) -> int:
    """Parse an integer in decimal digits between ``least`` and ``greatest``; leading zeros are allowed."""
    match = _INTEGER.fullmatch(text)
    if match is None or (match[1] and not signs):
        raise refusal(text, "an integer in digits of 64 bits")
    number = int(match[1] + match[2])
    if not least <= number <= greatest:
        raise refusal(text, f"between {least} and {greatest}")
    return number


def _read_i(text: str, compat: Compat) -> bytes:
    return pack_int(read_integer(text, I64_MIN, I64_MAX))


def _read_f(text: str, compat: Compat) -> bytes:
    if compat is Compat.GO:
        match = _FLOAT.match(text)
        return pack_float(float(match.group()) if match is not None else 0.0)
    match = _FLOAT.fullmatch(text)
    if match is None:
        raise refusal(text, "a number")
    value = float(text)
    if math.isinf(value) and "i" not in text.lower():
        raise refusal(text, "within the range of a double")
    return pack_float(value)


def read_id(text: str, compat: Compat) -> Id:
    """Parse an ID that is the whole text; with `Compat.GO` return `read_id_text` of any text."""
    id = read_id_text(text)
    if compat is Compat.DEFAULT and (id == BAD_ID or _ID.fullmatch(text) is None):
        raise refusal(text, "an ID")
    return id


def _read_r(text: str, compat: Compat) -> bytes:
    return read_id(text, compat).zip()


def _unescaped(match: re.Match[str]) -> str:
    high, low, single, letter = match.groups()
    if high is not None:
        return chr(0x10000 + ((int(high, 16) & 0x3FF) << 10) + (int(low, 16) & 0x3FF))
    if single is not None:
        return chr(int(single, 16))
    return _ESCAPED.get(letter, chr(_FIRST_SURROGATE))


def _read_s(text: str, compat: Compat) -> bytes:
    if len(text) < 2 or text[0] != '"' or text[-1] != '"':
        raise refusal(text, "in double quotes")
    match = _QUOTED.fullmatch(text)
    # Half a surrogate pair cannot be encoded; an unknown escape has been replaced by one.
    content = _ESCAPE.sub(_unescaped, match[1]) if match is not None else chr(_LAST_SURROGATE)
    try:
        return content.encode()
    except UnicodeEncodeError:
        if compat is Compat.GO:
            return b""
        raise refusal(text, "a string of JSON") from None


def _read_t(text: str, compat: Compat) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise refusal(text, "text of whole characters") from None


def _write_f(value: bytes) -> str:
    number = unpack_float(value)
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    return f"{number:.6f}"


def _write_i(value: bytes) -> str:
    return str(unpack_int(value))


def _write_r(value: bytes) -> str:
    return str(Id.unzip(value, compat=Compat.GO))


def _write_s(value: bytes) -> str:
    return '"' + value.decode("utf-8", "replace").translate(_ESCAPES) + '"'


def _write_t(value: bytes) -> str:
    return value.decode("utf-8", "replace") if value else "null"


READ: Final[dict[str, Callable[[str, Compat], bytes]]] = {
    "F": _read_f,
    "I": _read_i,
    "R": _read_r,
    "S": _read_s,
    "T": _read_t,
}
"""Functions from text to value bytes, by letter."""
WRITE: Final[dict[str, Callable[[bytes], str]]] = {
    "F": _write_f,
    "I": _write_i,
    "R": _write_r,
    "S": _write_s,
    "T": _write_t,
}
"""Functions from value bytes to text, by letter; they raise `ValueMalformed` for numbers of over 8 bytes."""
