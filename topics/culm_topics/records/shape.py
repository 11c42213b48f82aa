"""The strict door for record values: CBOR arrays of a fixed shape, whose first item is a format number.

A value is accepted only in the one encoding that `encode` gives: shortest heads, definite lengths, no tags,
nothing behind it. That is checked without encoding again: whatever else CBOR allows makes the value longer
than the shortest form, except references (tags 25, 28, 29, 256) and big numbers, which are refused outright;
so a value of exactly the shortest form's length is in that form.
"""

from typing import Any, NoReturn, TypeGuard

import cbor2

from culm_models.cbor.strict import FLAT_MAX_DEPTH, decode_item
from culm_topics.errors import RecordError

FORMAT = 1
"""The only format number so far of every record whose value is an array."""

MAX_UINT = 2**64 - 1
_NULL = b"\xf6"
_SHORT_HEADS = tuple(bytes([0x40 + length]) for length in range(24))


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


def load_array(value: bytes | None, record: str, length: int, *, optional: int = 0) -> list[Any]:
    """Decode `value` as an array of `length` to `length + optional` items that starts with the format number.

    The caller checks each item's type and, with `check_size`, that nothing but the shortest form was used.
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


def check_size(value: bytes | None, size: int, record: str) -> None:
    """Refuse a value longer (or shorter) than the shortest form of what was decoded from it."""
    found = len(value or b"")
    if found != size:
        raise RecordError(f"{record}: {found} bytes where the shortest encoding has {size}")


def require(holds: bool, record: str, what: str) -> None:
    """Refuse what a record would be made of unless `holds`: `decode` would refuse the record, too late."""
    if not holds:
        raise RecordError(f"{record}: {what}")


def refuse_item(record: str, name: str, item: object, wanted: str) -> NoReturn:
    """Say which item has the wrong type, size or range."""
    shape = f"{len(item)} bytes" if isinstance(item, bytes) else type(item).__name__
    raise RecordError(f"{record}: {name} is {shape}, not {wanted}")


def is_uint(item: object) -> TypeGuard[int]:
    """An unsigned integer of at most 64 bits (and not a boolean)."""
    return type(item) is int and 0 <= item <= MAX_UINT


def bytes_item(data: bytes | None) -> bytes:
    """The shortest encoding of bytes, or of nothing."""
    if data is None:
        return _NULL
    length = len(data)
    return _SHORT_HEADS[length] + data if length < len(_SHORT_HEADS) else cbor2.dumps(data)


def dump(*items: object) -> bytes:
    """The shortest encoding of an array of these items."""
    return cbor2.dumps(items)


def item_size(item: object) -> int:
    """Bytes of the shortest encoding of any item: what `dump` writes of it."""
    return len(cbor2.dumps(item))


# Each of the following checks an item that has come in, and gives its part of the size for `check_size`; it
# raises `RecordError` for what the item must not be.


def choice_size(record: str, name: str, item: object, choices: tuple[str, ...]) -> int:
    """One of a few words."""
    if type(item) is not str or item not in choices:
        refuse_item(record, name, item, f"one of {', '.join(choices)}")
    return text_size(item)


def uint_size(record: str, name: str, item: object) -> int:
    """An unsigned integer of 64 bits."""
    if not is_uint(item):
        refuse_item(record, name, item, "an unsigned integer of 64 bits")
    return head_size(item)


def optional_uint_size(record: str, name: str, item: object) -> int:
    """An unsigned integer of 64 bits, or null."""
    return 1 if item is None else uint_size(record, name, item)


def bytes_size(record: str, name: str, item: object, length: int | None = None) -> int:
    """Bytes, of exactly `length` when that is given."""
    if type(item) is not bytes or (length is not None and len(item) != length):
        refuse_item(record, name, item, "bytes" if length is None else f"{length} bytes")
    return string_size(len(item))


def optional_bytes_size(record: str, name: str, item: object, length: int | None = None) -> int:
    """Bytes, or null."""
    return 1 if item is None else bytes_size(record, name, item, length)
