"""The form of declared records, which are arrays that begin with a format number; refuses malformed ones."""

from typing import Any, NoReturn

import cbor2

from culm_models.cbor.strict import FLAT_MAX_DEPTH, decode_item
from culm_topics.errors import RecordError

FORMAT = 1
"""The only format number so far, for every record whose value is an array."""
MAX_UINT = 2**64 - 1


def head_size(argument: int) -> int:
    """Return the size of the shortest CBOR head for a length or an unsigned integer, in bytes."""
    if argument < 24:
        return 1
    if argument < 0x100:
        return 2
    if argument < 0x10000:
        return 3
    return 5 if argument < 0x1_0000_0000 else 9


def string_size(length: int) -> int:
    """Return the size of the shortest encoding of a string of `length` bytes, in bytes."""
    if length < 24:
        return length + 1
    if length < 0x100:
        return length + 2
    return length + 3 if length < 0x10000 else length + 5


def text_size(text: str) -> int:
    """Return the size of the shortest encoding of a text, in bytes."""
    return string_size(len(text) if text.isascii() else len(text.encode()))


def utf8_size(text: str) -> int:
    """Return the size of a text in UTF-8, in bytes; more than any limit if it has a lone surrogate."""
    try:
        return len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError:
        return MAX_UINT


def load_array(value: bytes | None, record: str, length: int, *, optional: int = 0) -> list[Any]:
    """Decode `value` as an array of `length` to `length + optional` items that starts with the format number.

    The caller checks the type of each item, and by the size that the value is in the shortest form.
    """
    if value is None:
        raise RecordError(f"{record}: the record has no value")
    try:
        items = decode_item(value, max_depth=FLAT_MAX_DEPTH)
    except (cbor2.CBORDecodeError, ValueError, TypeError, RecursionError, OverflowError) as error:
        raise RecordError(f"{record}: the value is not the CBOR that was promised: {error}") from error
    if type(items) is not list:
        raise RecordError(f"{record}: the value is not a CBOR array")
    if not items or type(items[0]) is not int or items[0] != FORMAT:
        format_number = items[0] if items and type(items[0]) is int else "none"
        raise RecordError(f"{record}: format number {format_number} is not known (known: {FORMAT})")
    if not length <= len(items) <= length + optional:
        raise RecordError(f"{record}: {len(items)} items where {length} belong")
    return items


def refuse_size(record: str, value: bytes, size: int) -> NoReturn:
    """Raise `RecordError` for a value that is not in the shortest form."""
    raise RecordError(f"{record}: {len(value)} bytes, but the shortest encoding has {size}")


def require(holds: bool, record: str, what: str) -> None:
    """Raise `RecordError` unless `holds`: refuses early a record that `decode` would refuse later."""
    if not holds:
        raise RecordError(f"{record}: {what}")


def refuse_item(record: str, name: str, item: object, wanted: str) -> NoReturn:
    """Raise `RecordError` that names the item with the wrong type, size or range."""
    shape = f"{len(item)} bytes" if isinstance(item, bytes) else type(item).__name__
    raise RecordError(f"{record}: {name} is {shape}, not {wanted}")


def item_size(item: object) -> int:
    """Return the size of the shortest encoding of any item, in bytes."""
    return len(cbor2.dumps(item))
