"""What declared records are made of: arrays with a format number in front, and how they are refused."""

from typing import Any, NoReturn

import cbor2

from culm_models.cbor.strict import FLAT_MAX_DEPTH, decode_item
from culm_topics.errors import RecordError

FORMAT = 1
"""The only format number so far of every record whose value is an array."""
MAX_UINT = 2**64 - 1


def head_size(argument: int) -> int:
    """Bytes of the shortest CBOR head for a length or an unsigned integer."""
    if argument < 24:
        return 1
    if argument < 0x100:
        return 2
    if argument < 0x10000:
        return 3
    return 5 if argument < 0x1_0000_0000 else 9


def string_size(length: int) -> int:
    """Bytes of the shortest encoding of a string of `length` bytes."""
    if length < 24:
        return length + 1
    if length < 0x100:
        return length + 2
    return length + 3 if length < 0x10000 else length + 5


def text_size(text: str) -> int:
    """Bytes of the shortest encoding of a text."""
    return string_size(len(text) if text.isascii() else len(text.encode()))


def utf8_size(text: str) -> int:
    """Bytes of a text in UTF-8; more than any limit where half a character is among them."""
    try:
        return len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError:
        return MAX_UINT


def load_array(value: bytes | None, record: str, length: int, *, optional: int = 0) -> list[Any]:
    """Decode `value` as an array of `length` to `length + optional` items that starts with the format number.

    The caller checks each item's type, and by the size that nothing but the shortest form was used.
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
        found = items[0] if items and type(items[0]) is int else "none"
        raise RecordError(f"{record}: format number {found} is not known (known: {FORMAT})")
    if not length <= len(items) <= length + optional:
        raise RecordError(f"{record}: {len(items)} items where {length} belong")
    return items


def refuse_size(record: str, value: bytes, size: int) -> NoReturn:
    """Say that a value is not in the shortest form."""
    raise RecordError(f"{record}: {len(value)} bytes where the shortest encoding has {size}")


def require(holds: bool, record: str, what: str) -> None:
    """Refuse what a record would be made of unless `holds`: `decode` would refuse the record, too late."""
    if not holds:
        raise RecordError(f"{record}: {what}")


def refuse_item(record: str, name: str, item: object, wanted: str) -> NoReturn:
    """Say which item has the wrong type, size or range."""
    shape = f"{len(item)} bytes" if isinstance(item, bytes) else type(item).__name__
    raise RecordError(f"{record}: {name} is {shape}, not {wanted}")


def item_size(item: object) -> int:
    """Bytes of the shortest encoding of any item."""
    return len(cbor2.dumps(item))
