"""Strict DAG-CBOR (reference 1.2, R2): a value has one encoding, and every other encoding is refused.

The scanner in this module decides. It reads once, from the first byte to the last, so that its error is the
first fault in the order of the bytes. It allocates no memory for a length that the bytes only claim.
`fast_dag_cbor` is tried first because it is much faster; it can only confirm that bytes are canonical. If no
value is needed, `common_nodes` is tried before it in the same way.
"""

from __future__ import annotations

import hashlib
import math
import struct
from typing import Any, Final

from culm_models.dag.blocks.cid import Cid, cid_from_bytes
from culm_models.dag.blocks.common_nodes import is_common_node
from culm_models.dag.blocks.fast_dag_cbor import UNSURE, fast_value, is_surely_canonical
from culm_models.dag.errors import CidMalformed, NonCanonical

NESTING_MAX: Final = 128
CID_START: Final = b"\x01\x71\x12\x20"
"""First bytes of a block's CID: version, codec, hash function and digest length; its sha2-256 follows."""
INTEGER_MIN: Final = -(1 << 64)
INTEGER_MAX: Final = (1 << 64) - 1

_UNSIGNED, _NEGATIVE, _BYTES, _TEXT, _LIST, _MAP, _TAG = range(7)
_FALSE, _TRUE, _NULL, _DOUBLE = 0xF4, 0xF5, 0xF6, 0xFB
_LINK_TAG: Final = 42
_SIMPLE: Final = {_FALSE: False, _TRUE: True, _NULL: None}
# The smallest argument that needs the head of 1, 2, 4, 8 more bytes.
_LEAST: Final = {24: 24, 25: 1 << 8, 26: 1 << 16, 27: 1 << 32}


def decode_dag_cbor(data: bytes) -> Any:
    """Decode a value; links become `Cid`. Raises `NonCanonical` or `CidMalformed`."""
    value = fast_value(data, NESTING_MAX)
    return scan_dag_cbor(data) if value is UNSURE else value


def dag_cbor_cid(data: bytes) -> bytes:
    """Return the bytes of a block's CID without building its value.

    Raises `NonCanonical` or `CidMalformed` as `decode_dag_cbor` does.
    """
    if not is_common_node(data) and not is_surely_canonical(data, NESTING_MAX):
        scan_dag_cbor(data)
    return CID_START + hashlib.sha256(data).digest()


def scan_dag_cbor(data: bytes) -> Any:
    """Decode a value like `decode_dag_cbor`, but with the scanner only."""
    value, end = decode_item(data, 0)
    if end != len(data):
        raise NonCanonical(f"{len(data) - end} bytes follow the value")
    return value


def decode_item(data: bytes, at: int) -> tuple[Any, int]:
    """Decode the value that begins at `at`. Returns it with the offset of its end."""
    return _item(data, at, NESTING_MAX)


def _head(data: bytes, at: int) -> tuple[int, int, int]:
    """Read a head that is not a float or simple value, in its shortest form.

    Returns the major type, the argument and the offset of the end.
    """
    if at >= len(data):
        raise NonCanonical(f"the bytes end where an item must begin, at {at}")
    first = data[at]
    major, argument = first >> 5, first & 31
    if argument < 24:
        return major, argument, at + 1
    if argument > 27:
        raise NonCanonical(f"the head {first:02x} at byte {at} is reserved or of indefinite length")
    end = at + 1 + (1 << (argument - 24))
    if end > len(data):
        raise NonCanonical(f"the bytes end in the head at byte {at}")
    number = int.from_bytes(data[at + 1 : end], "big")
    if number < _LEAST[argument]:
        raise NonCanonical(f"the head at byte {at} is not the shortest form")
    return major, number, end


def _item(data: bytes, at: int, levels: int) -> tuple[Any, int]:
    if at < len(data) and data[at] >= 0xE0:
        return _simple(data, at)
    major, argument, end = _head(data, at)
    if major == _UNSIGNED:
        return argument, end
    if major == _NEGATIVE:
        return -1 - argument, end
    if major == _TAG:
        if argument != _LINK_TAG:
            raise NonCanonical(f"a tag other than 42 at byte {at}")
        return _link(data, end)
    if argument > len(data) - end:
        raise NonCanonical(f"the length at byte {at} is larger than what follows")
    if major == _BYTES:
        return data[end : end + argument], end + argument
    if major == _TEXT:
        return _text(data, end, argument), end + argument
    if not levels:
        raise NonCanonical(f"lists and maps are nested more than {NESTING_MAX} deep")
    return _list(data, end, argument, levels) if major == _LIST else _map(data, end, argument, levels)


def _simple(data: bytes, at: int) -> tuple[Any, int]:
    first = data[at]
    if first in _SIMPLE:
        return _SIMPLE[first], at + 1
    if first != _DOUBLE or at + 9 > len(data):
        raise NonCanonical(f"neither false, true, null nor a 64-bit float at byte {at}")
    value: float = struct.unpack_from(">d", data, at + 1)[0]
    if not math.isfinite(value):
        raise NonCanonical(f"a float that is no number at byte {at}")
    return value, at + 9


def _text(data: bytes, at: int, size: int) -> str:
    try:
        return data[at : at + size].decode()
    except UnicodeDecodeError:
        raise NonCanonical(f"the text at byte {at} is not UTF-8") from None


def _link(data: bytes, at: int) -> tuple[Cid, int]:
    if at < len(data) and data[at] >= 0xE0:
        raise CidMalformed(f"the link at byte {at} is no byte string")
    major, size, start = _head(data, at)
    if major != _BYTES:
        raise CidMalformed(f"the link at byte {at} is no byte string")
    end = start + size
    if end > len(data):
        raise NonCanonical(f"the length at byte {at} is larger than what follows")
    if not size or data[start]:
        raise CidMalformed(f"the link at byte {at} does not begin with a zero")
    return cid_from_bytes(data[start + 1 : end]), end


def _list(data: bytes, at: int, count: int, levels: int) -> tuple[list[Any], int]:
    values = []
    for _ in range(count):
        value, at = _item(data, at, levels - 1)
        values.append(value)
    return values, at


def _map(data: bytes, at: int, count: int, levels: int) -> tuple[dict[str, Any], int]:
    if 2 * count > len(data) - at:
        raise NonCanonical(f"the map before byte {at} announces more entries than bytes follow")
    values: dict[str, Any] = {}
    before = (-1, b"")
    for _ in range(count):
        major, size, start = _head(data, at)
        if major != _TEXT:
            raise NonCanonical(f"the key at byte {at} is no text")
        end = start + size
        if end > len(data):
            raise NonCanonical(f"the length at byte {at} is larger than what follows")
        key = (size, data[start:end])
        if key <= before:
            raise NonCanonical(f"the key at byte {at} is repeated or not in its order")
        before = key
        name = _text(data, start, size)
        values[name], at = _item(data, end, levels - 1)
    return values, at


def encode_dag_cbor(value: Any) -> bytes:
    """Encode a value: null, boolean, number, text, bytes, `Cid`, or a list or map of these.

    Raises `NonCanonical` if DAG-CBOR cannot express the value.
    """
    out = bytearray()
    _write(out, value, NESTING_MAX)
    return bytes(out)


def _write_head(out: bytearray, major: int, argument: int) -> None:
    major <<= 5
    if argument < 24:
        out.append(major | argument)
    elif argument < 1 << 8:
        out += bytes((major | 24, argument))
    elif argument < 1 << 16:
        out.append(major | 25)
        out += argument.to_bytes(2, "big")
    elif argument < 1 << 32:
        out.append(major | 26)
        out += argument.to_bytes(4, "big")
    else:
        out.append(major | 27)
        out += argument.to_bytes(8, "big")


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise NonCanonical("a text holds half a surrogate pair") from None


def _write(out: bytearray, value: Any, levels: int) -> None:
    if isinstance(value, Cid):
        out += b"\xd8\x2a"
        _write_head(out, _BYTES, len(value.raw) + 1)
        out.append(0)
        out += value.raw
    elif isinstance(value, str):
        data = _utf8(value)
        _write_head(out, _TEXT, len(data))
        out += data
    elif isinstance(value, bytes | bytearray | memoryview):
        _write_head(out, _BYTES, len(value))
        out += value
    elif value is None or isinstance(value, bool):
        out.append(_NULL if value is None else _TRUE if value else _FALSE)
    elif isinstance(value, int):
        if not INTEGER_MIN <= value <= INTEGER_MAX:
            raise NonCanonical("an integer outside of -2^64 to 2^64-1")
        _write_head(out, _UNSIGNED if value >= 0 else _NEGATIVE, value if value >= 0 else -1 - value)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise NonCanonical("a float that is no number")
        out.append(_DOUBLE)
        out += struct.pack(">d", value)
    elif isinstance(value, list | tuple):
        _require_level(levels)
        _write_head(out, _LIST, len(value))
        for item in value:
            _write(out, item, levels - 1)
    elif isinstance(value, dict):
        _require_level(levels)
        _write_map(out, value, levels - 1)
    else:
        raise NonCanonical(f"a value of the kind {type(value).__name__}")


def _write_map(out: bytearray, value: dict[Any, Any], levels: int) -> None:
    entries = []
    for key, item in value.items():
        if not isinstance(key, str):
            raise NonCanonical("a key that is no text")
        name = _utf8(key)
        entries.append((len(name), name, item))
    entries.sort(key=lambda entry: entry[:2])
    _write_head(out, _MAP, len(entries))
    for size, name, item in entries:
        _write_head(out, _TEXT, size)
        out += name
        _write(out, item, levels)


def _require_level(levels: int) -> None:
    if not levels:
        raise NonCanonical(f"lists and maps are nested more than {NESTING_MAX} deep")
