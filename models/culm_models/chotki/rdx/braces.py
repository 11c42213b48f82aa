"""The text of sets and maps: ``{a,b}`` and ``{k:v}`` (reference 3.4).

Inside, ``"…"`` is a string, hex digits with dashes between them are a reference, decimal digits with a point
or an exponent are a float, other digits an integer, and a word is a term. Blanks around them are skipped.
"""

from __future__ import annotations

import re
from typing import Final

from culm_models.chotki.compat import Compat
from culm_models.chotki.errors import TextMalformed
from culm_models.chotki.rdx.first import Element, elements, write_element
from culm_models.chotki.rdx.scalars import READ, WRITE, refusal

_TOKEN: Final = re.compile(r'\s*("[^"\\]*(?:\\.[^"\\]*)*"|[{},:]|[^\s{}\[\](),:"]+)\s*', re.DOTALL)
_REFERENCE: Final = re.compile(r"[0-9a-fA-F]+(?:-[0-9a-fA-F]+){1,2}")
_FLOAT: Final = re.compile(r"[+-]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][+-]?[0-9]+)?")
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_WORD: Final = re.compile(r"[^\W\d][\w~]*")
_T: Final = ord("T")

Part = tuple[int, bytes]
"""(letter's code, value bytes)."""


def read_set(text: str, compat: Compat) -> bytes:
    """Parse an E, sorted by value bytes, each value once; with `Compat.GO` as written, without terms."""
    if compat is Compat.GO:
        try:
            parts = [part for part in _split(text, compat) if part[0] != _T]
        except TextMalformed:
            return b""
    else:
        once = {value: code for code, value in reversed(_split(text, compat))}
        parts = [(once[value], value) for value in sorted(once)]
    return b"".join(write_element(code, 0, 0, value) for code, value in parts)


def read_map(text: str, compat: Compat) -> bytes:
    """Parse an M, sorted by key letter and key value. A repeated key is refused, or kept with `Compat.GO`."""
    try:
        parts = _split(text, compat, values=True)
    except TextMalformed:
        if compat is Compat.GO:
            return b""
        raise
    pairs = sorted(zip(parts[::2], parts[1::2], strict=True), key=lambda pair: pair[0])
    if compat is Compat.DEFAULT and len({key for key, _ in pairs}) < len(pairs):
        raise refusal(text, "a map with each key once")
    return b"".join(write_element(code, 0, 0, value) for pair in pairs for code, value in pair)


def write_set(data: bytes) -> str:
    """Return the text of the elements in stored order, without removed elements."""
    return "{" + ",".join(_written(element) for element in elements(data) if not element[1] & 1) + "}"


def write_map(data: bytes) -> str:
    """Return the text of the pairs in stored order, without removed keys; a removed value is ``null``."""
    members = list(elements(data))
    texts = []
    for at in range(0, len(members), 2):
        key, value = members[at], members[at + 1] if at + 1 < len(members) else None
        if not key[1] & 1:
            text = "null" if value is None or value[1] & 1 else _written(value)
            texts.append(f"{_written(key)}:{text}")
    return "{" + ",".join(texts) + "}"


def _written(element: Element) -> str:
    code, _, _, value, _ = element
    write = WRITE.get(chr(code))
    return value.hex() if write is None else write(value)


def _split(text: str, compat: Compat, *, values: bool = False) -> list[Part]:
    """Return the parts between the braces, in order; with ``values`` keys and values alternate."""
    parts: list[Part] = []
    tokens = _tokens(text)
    last = len(tokens) - 1
    if last < 1 or tokens[0] != "{" or tokens[last] != "}":
        raise refusal(text, "in braces")
    if last == 1:
        return parts
    # Parts have odd positions, and their separators even ones.
    for at in range(1, last + 1):
        if at % 2:
            parts.append(_part(tokens[at], compat))
        elif at < last:
            wanted = ":" if values and at % 4 == 2 else ","
            if tokens[at] != wanted:
                raise refusal(text, f"a {'map' if values else 'set'}: {wanted!r} is missing")
    if last % 2 or (values and len(parts) % 2):
        raise refusal(text, f"a whole {'map' if values else 'set'}")
    return parts


def _tokens(text: str) -> list[str]:
    tokens = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise refusal(text[at:], "any text in braces")
        tokens.append(match[1])
        at = match.end()
    return tokens


def _part(token: str, compat: Compat) -> Part:
    letter = _letter(token, compat)
    return ord(letter), READ[letter](token, compat)


def _letter(token: str, compat: Compat) -> str:
    if token[0] == '"':
        return "S"
    if _REFERENCE.fullmatch(token):
        return "R"
    match = _FLOAT.fullmatch(token)
    if match is not None:
        # The Go replica's reader of braces accepts no float without an exponent.
        if compat is Compat.GO and match[1] is None:
            raise refusal(token, "a float with an exponent")
        return "F"
    if _INTEGER.fullmatch(token):
        return "I"
    if _WORD.fullmatch(token):
        return "T"
    raise refusal(token, "a value")
