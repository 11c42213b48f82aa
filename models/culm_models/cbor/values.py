"""Decoding and encoding of whole CBOR items under strict rules (RFC 8949, without what messages do not use).

Accepted: integers from -2**63 to 2**64 - 1, floats, false, true, null, byte strings, UTF-8 text, arrays and
maps without repeated keys, all of definite length. Refused: tags, `undefined` and other simple values,
indefinite lengths, deep nesting, and bytes after the item.
"""

import io
from collections.abc import Callable, Mapping
from typing import Any, Final

import cbor2

from culm_models.cbor.scanner import ItemScanner
from culm_models.cbor.strict import (
    DEFAULT_MAX_DEPTH,
    CborError,
    CborValueError,
    MalformedError,
    TooLargeError,
    TooManyItemsError,
    TrailingBytesError,
    TruncatedError,
    item_decoder,
)

MIN_INTEGER: Final = -(2**63)
MAX_INTEGER: Final = 2**64 - 1

# Types without content of other types; values of all other types are inspected or refused.
_PLAIN_KINDS = frozenset((bytes, str, bool, type(None), float))
_KEY_KINDS = frozenset((bytes, str, int))


def loads(data: bytes, *, max_depth: int = DEFAULT_MAX_DEPTH, max_items: int | None = None) -> Any:
    """Decode the one value in `data`. Raises a `CborError` if it breaks a rule of this module.

    With `max_items`, it may contain at most this many items, including those at every depth. A value that
    declares more is refused before it is decoded.
    """
    # Every item has at least one byte.
    if max_items is not None and len(data) > max_items:
        _count_items(data, max_depth, max_items)
    stream = io.BytesIO(data)
    try:
        value = item_decoder(stream, max_depth=max_depth).decode()
    except Exception as error:
        # The decoder raises several kinds of exception; each of them means that these bytes are refused.
        raise _fault(data, max_depth, error) from error
    _check_value(value)
    if stream.tell() != len(data):
        raise TrailingBytesError(f"{len(data) - stream.tell()} bytes follow the item")
    return value


def _count_items(data: bytes, max_depth: int, max_items: int) -> None:
    scanner = ItemScanner(len(data), max_depth, max_items=max_items)
    try:
        scanner.take(data, 0)
    except TooManyItemsError:
        raise
    except CborError:
        return  # the decoder reports all other errors


def dumps(value: Any) -> bytes:
    """Encode `value`: definite lengths, the shortest form of each number, map keys in the given order.

    Tuples become arrays. Raises `CborValueError` for values that `loads` refuses.
    """
    _check_value(value)
    return cbor2.dumps(value, encoders=_SHORTEST_FLOATS)


def _encode_float(encoder: cbor2.CBOREncoder, value: float) -> None:
    encoder.write(cbor2.dumps(value, canonical=True))


_SHORTEST_FLOATS: Final[Mapping[type, Callable[[cbor2.CBOREncoder, Any], Any]]] = {float: _encode_float}


def _check_value(value: Any) -> None:
    kind = type(value)
    if kind is int:
        if not MIN_INTEGER <= value <= MAX_INTEGER:
            raise CborValueError("an integer outside of -2**63..2**64-1")
    elif kind is list or kind is tuple:
        for item in value:
            if type(item) not in _PLAIN_KINDS:
                _check_value(item)
    elif kind is dict:
        for key, item in value.items():
            if type(key) not in _KEY_KINDS:
                raise CborValueError(f"a map key of the kind {type(key).__name__}")
            _check_value(key)
            if type(item) not in _PLAIN_KINDS:
                _check_value(item)
    elif kind not in _PLAIN_KINDS:
        raise CborValueError(f"a value of the kind {kind.__name__}")


def _fault(data: bytes, max_depth: int, error: Exception) -> CborError:
    """Return the error that stopped the decoder: heads are read once more, slowly."""
    if not data:
        return TruncatedError("an item cannot be empty")
    scanner = ItemScanner(max_bytes=max(len(data), 1), max_depth=max_depth)
    try:
        complete = bool(scanner.feed(data))
    except TooLargeError:
        complete = False
    except CborError as found:
        return found
    if not complete:
        return TruncatedError("the bytes end before the item does")
    return MalformedError(f"not an item of the known kinds: {error}")
