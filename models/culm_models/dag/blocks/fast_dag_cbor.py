"""DAG-CBOR with libipld, a library in Rust: a fast confirmation that bytes are canonical, or no answer (R6).

libipld reads links as plain bytes and accepts some encodings that are not canonical: numbers and lengths that
are not the shortest, floats of 32 bits, CIDs followed by further bytes, byte strings in place of links and
links in place of byte strings. Each value is therefore encoded again, and only bytes that come back unchanged
are canonical. Two faults can survive this and are checked separately: a malformed CID (each CID is parsed
with the rules of `cid`) and the nesting (counted).

libipld decides by their content whether it writes bytes as a link. Since the bytes came back unchanged, a
value was a link exactly if libipld writes it as a link.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final

import libipld

from culm_models.dag.blocks.cid import cid_from_bytes, common_cid
from culm_models.dag.errors import CidMalformed

UNSURE: Final = object()
"""Result that leaves open whether the bytes are canonical."""

_LINK_FIRST: Final = 0xD8
# Bytes that may be a link, but not a link with a whole sha2-256 and a codec that occurs in nodes.
_UNUSUAL_LINK: Final = re.compile(
    rb"\xd8\x2a(?!\x58(?:\x25\x00\x01[\x55\x70\x71]|\x26\x00\x01(?:\x82\x04|\xa9\x02))\x12\x20)"
)
# The heads of lists and maps; such bytes are counted wherever they occur.
_NESTING_HEADS: Final = bytes(range(0x80, 0xC0))
# A CID can begin with version 1, `12 20`, or a varint of more bytes; only libipld can decide about the last.
_NO_CID_FIRSTS: Final = frozenset(range(0x80)) - {0x01, 0x12}

_decode = libipld.decode_dag_cbor
_encode = libipld.encode_dag_cbor


def fast_value(data: bytes, levels: int) -> Any:
    """Decode canonical bytes, with links as `Cid`. Returns `UNSURE` if the bytes may not be canonical."""
    try:
        value = _decode(data)
        if _encode(value) != data:
            return UNSURE
        return _linked(value, levels)
    except (ValueError, RecursionError, OverflowError, TypeError, CidMalformed):
        return UNSURE


def fast_part(data: bytes, *keys: str) -> bytes | None:
    """Return the bytes of the value under a path of keys in a canonical map, or None if that is not certain.

    libipld encodes a whole as the concatenation of its parts. If the whole comes back unchanged, so does
    every part.
    """
    try:
        value = _decode(data)
        if _encode(value) != data:
            return None
        for key in keys:
            value = value[key]
        return bytes(_encode(value))
    except (ValueError, RecursionError, OverflowError, TypeError, KeyError):
        return None


def is_surely_canonical(data: bytes, levels: int) -> bool:
    """Whether the bytes are certainly canonical. False proves nothing."""
    try:
        if (
            _encode(_decode(data)) == data
            and _UNUSUAL_LINK.search(data) is None
            and len(data) - len(data.translate(None, _NESTING_HEADS)) <= levels
        ):
            # Most blocks need no further check: they hold only links of the usual kinds and few heads.
            return True
    except (ValueError, RecursionError, OverflowError, TypeError):
        return False
    return fast_value(data, levels) is not UNSURE


def _linked(value: Any, levels: int) -> Any:
    kind = type(value)
    if kind is bytes:
        return common_cid(value) or (cid_from_bytes(value) if _is_link(value) else value)
    if kind is dict:
        if not levels:
            raise RecursionError
        return {key: _linked(item, levels - 1) for key, item in value.items()}
    if kind is list:
        if not levels:
            raise RecursionError
        return [_linked(item, levels - 1) for item in value]
    if kind is float and not math.isfinite(value):
        raise ValueError
    return value


def _is_link(value: bytes) -> bool:
    if not value or value[0] in _NO_CID_FIRSTS:
        return False
    return bool(_encode(value)[0] == _LINK_FIRST)
