"""The three spellings of the log heights in a `Have` (specification "replication", log height mode).

    flat      [key, log id, seq num, key, log id, seq num, …]      keys as 64 hex digits: the specification
    by log    [[key, log id, seq num], …]                          keys as 64 hex digits: read only
    grouped   [[key, [[log id, seq num], …]], …]                   keys as 32 bytes: the aquadoggo node

The first inner item tells them apart. In the grouped form numbers may be decimal text, as in that node.
"""

from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from culm_models.keys import PUBLIC_KEY_SIZE
from culm_models.p2panda.message_errors import (
    ItemCountError,
    ItemKindError,
    ItemRangeError,
    PublicKeyError,
)
from culm_models.p2panda.messages import LogHeight

_MAX_U64: Final = 2**64 - 1
_MAX_DIGITS: Final = 20
_HEX_SIZE: Final = 2 * PUBLIC_KEY_SIZE
_ITEMS_PER_LOG: Final = 3

# Type, session id and the arrays around the log heights; a hex key with its head; the largest log height.
_HAVE_HEAD_BYTES: Final = 32
_HEX_KEY_BYTES: Final = 2 + _HEX_SIZE
_MAX_LOG_HEIGHT_BYTES: Final = _HEX_KEY_BYTES + 9 + 9


def flat(log_heights: Iterable[LogHeight]) -> list[str | int]:
    """The flat run of the specification."""
    items: list[str | int] = []
    for public_key, log_id, seq_num in log_heights:
        items += (public_key.hex(), log_id, seq_num)
    return items


def prefix_that_fits(log_heights: tuple[LogHeight, ...], max_message_bytes: int) -> tuple[LogHeight, ...]:
    """The log heights from the front that fit one `Have` of that size, in either form that is written."""
    room = max_message_bytes - _HAVE_HEAD_BYTES
    if len(log_heights) * _MAX_LOG_HEIGHT_BYTES <= room:
        return log_heights
    for position, (_, log_id, seq_num) in enumerate(log_heights):
        room -= _HEX_KEY_BYTES + _number_bytes(log_id) + _number_bytes(seq_num)
        if room < 0:
            return log_heights[:position]
    return log_heights


def _number_bytes(number: int) -> int:
    """How many bytes CBOR takes for a number."""
    return 1 if number < 24 else 2 if number < 2**8 else 3 if number < 2**16 else 5 if number < 2**32 else 9


def grouped(log_heights: Iterable[LogHeight]) -> list[tuple[bytes, list[tuple[int, int]]]]:
    """The aquadoggo node's form: keys as bytes, each once."""
    return [
        (public_key, [(log_id, seq_num) for _, log_id, seq_num in logs])
        for public_key, logs in groupby(sorted(log_heights), key=itemgetter(0))
    ]


def decode_log_heights(items: Any) -> tuple[LogHeight, ...]:
    """The log heights of any of the three forms, in the order of arrival.

    Raises `ItemCountError`, `ItemKindError`, `ItemRangeError` and `PublicKeyError`.
    """
    if type(items) is not list:
        raise ItemKindError(f"log heights are an array, not {type(items).__name__}")
    if not items:
        return ()
    first = items[0]
    if type(first) is str:
        return _decode_flat(items)
    if type(first) is list and first:
        if type(first[0]) is str:
            return tuple(_decode_one(_array(item, _ITEMS_PER_LOG, "a log height")) for item in items)
        if type(first[0]) is bytes:
            return _decode_grouped(items)
    raise ItemKindError("log heights start with a public key or with an array that starts with one")


def _decode_flat(items: list[Any]) -> tuple[LogHeight, ...]:
    if len(items) % _ITEMS_PER_LOG:
        raise ItemCountError(f"log heights come in threes, {len(items)} items are none")
    return tuple(map(_decode_one, zip(*[iter(items)] * _ITEMS_PER_LOG, strict=True)))


def _decode_one(items: Any) -> LogHeight:
    public_key, log_id, seq_num = items
    return _hex_key(public_key), _number(log_id, 0, "a log id"), _number(seq_num, 1, "a sequence number")


def _decode_grouped(items: list[Any]) -> tuple[LogHeight, ...]:
    found: list[LogHeight] = []
    for item in items:
        public_key, logs = _array(item, 2, "a public key with its logs")
        if type(public_key) is not bytes:
            raise ItemKindError(f"a public key is a byte string here, not {type(public_key).__name__}")
        if len(public_key) != PUBLIC_KEY_SIZE:
            raise PublicKeyError(f"a public key has {PUBLIC_KEY_SIZE} bytes, not {len(public_key)}")
        if type(logs) is not list:
            raise ItemKindError(f"the logs of a public key are an array, not {type(logs).__name__}")
        for log in logs:
            log_id, seq_num = _array(log, 2, "a log id with its height")
            found.append(
                (
                    public_key,
                    _number(_from_text(log_id), 0, "a log id"),
                    _number(_from_text(seq_num), 1, "a sequence number"),
                )
            )
    return tuple(found)


def _array(item: Any, size: int, name: str) -> list[Any]:
    if type(item) is not list:
        raise ItemKindError(f"{name} is an array, not {type(item).__name__}")
    if len(item) != size:
        raise ItemCountError(f"{name} has {size} items, not {len(item)}")
    return item


def _hex_key(text: Any) -> bytes:
    if type(text) is not str:
        raise ItemKindError(f"a public key is text here, not {type(text).__name__}")
    try:
        # `fromhex` alone would also skip white space.
        public_key = bytes.fromhex(text) if len(text) == _HEX_SIZE else b""
    except ValueError:
        public_key = b""
    if len(public_key) != PUBLIC_KEY_SIZE:
        raise PublicKeyError(f"a public key is {_HEX_SIZE} hex digits")
    return public_key


def _from_text(value: Any) -> Any:
    if type(value) is str and len(value) <= _MAX_DIGITS and value.isascii() and value.isdecimal():
        return int(value)
    return value


def _number(value: Any, lowest: int, name: str) -> int:
    if type(value) is not int:
        raise ItemKindError(f"{name} is a number, not {type(value).__name__}")
    if not lowest <= value <= _MAX_U64:
        raise ItemRangeError(f"{name} is from {lowest} to 2**64-1, not {value}")
    return value
