"""DAG-CBOR by libipld, a library in Rust: a fast yes, or no word at all (R6).

libipld reads links as plain bytes and takes some encodings that are not canonical: numbers and lengths that
are not the shortest, floats of 32 bits, CIDs with bytes behind them, byte strings in place of links and the
other way round. So what it read is written again: canonical is only what comes back byte for byte. Two faults
can survive that, and are looked for: a broken CID (each is read by our own rules), and nesting (counted).

Whether bytes were a link: libipld writes bytes as a link by their content alone. Since the bytes came back, a
value was a link exactly when libipld writes it as one.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final

import libipld

from culm_models.dag.blocks.cid import cid_from_bytes, common_cid
from culm_models.dag.errors import CidMalformed

UNSURE: Final = object()
"""Not said to be canonical, and not said to be otherwise."""

_LINK_FIRST: Final = 0xD8
# Bytes that may be a link, but not one with a whole sha2-256 in a codec that nodes have.
_UNUSUAL_LINK: Final = re.compile(
    rb"\xd8\x2a(?!\x58(?:\x25\x00\x01[\x55\x70\x71]|\x26\x00\x01(?:\x82\x04|\xa9\x02))\x12\x20)"
)
# The heads of lists and maps, wherever such bytes stand.
_NESTING_HEADS: Final = bytes(range(0x80, 0xC0))
# What a CID can begin with: version 1, `12 20`, or a varint of more bytes, which libipld is asked about.
_NO_CID_FIRSTS: Final = frozenset(range(0x80)) - {0x01, 0x12}

_decode = libipld.decode_dag_cbor
_encode = libipld.encode_dag_cbor


def fast_value(data: bytes, levels: int) -> Any:
    """The value of canonical bytes with links as `Cid`, or `UNSURE`."""
    try:
        value = _decode(data)
        if _encode(value) != data:
            return UNSURE
        return _linked(value, levels)
    except (ValueError, RecursionError, OverflowError, TypeError, CidMalformed):
        return UNSURE


def fast_part(data: bytes, *keys: str) -> bytes | None:
    """The bytes of a part of a map of canonical bytes; None where that is not said.

    What libipld writes of a whole is what it writes of its parts, one behind the other: where the whole comes
    back byte for byte, so does the part.
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
    """Whether bytes are canonical beyond doubt; False says nothing."""
    try:
        if (
            _encode(_decode(data)) == data
            and _UNUSUAL_LINK.search(data) is None
            and len(data) - len(data.translate(None, _NESTING_HEADS)) <= levels
        ):
            # Most blocks are settled by their bytes alone: links of the usual kinds, few heads.
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
