"""The three encodings of the log heights in a `Have` (specification "replication", log height mode).

    flat      [key, log id, seq num, key, log id, seq num, …]      keys as 64 hex digits: the specification
    by log    [[key, log id, seq num], …]                          keys as 64 hex digits: read only
    grouped   [[key, [[log id, seq num], …]], …]                   keys as 32 bytes: the aquadoggo node

The first inner item distinguishes them. In the grouped form, numbers may be decimal text, as in that node.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from culm_models.p2panda.errors import ItemCountError, ItemKindError
from culm_models.p2panda.wire.items import HEX_KEY_SIZE, array, key_from_bytes, key_from_hex, u64
from culm_models.p2panda.wire.messages import LogHeight

_MAX_DIGITS: Final = 20
_ITEMS_PER_LOG: Final = 3

# Type, session id and the arrays around the log heights; a hex key with its head.
_HAVE_HEAD_BYTES: Final = 32
_HEX_KEY_BYTES: Final = 2 + HEX_KEY_SIZE


def flat(log_heights: Iterable[LogHeight]) -> list[str | int]:
    """Return the flat list of the specification."""
    items: list[str | int] = []
    for public_key, log_id, seq_num in log_heights:
        items += (public_key.hex(), log_id, seq_num)
    return items


def capacity(max_message_bytes: int) -> int:
    """Return the number of bytes of a message that are available for log heights."""
    return max_message_bytes - _HAVE_HEAD_BYTES


def size_within(log_heights: Iterable[LogHeight], max_bytes: int) -> int | None:
    """Return the size of log heights in a written `Have`, in bytes; None if it exceeds `max_bytes`."""
    size = 0
    for _, log_id, seq_num in log_heights:
        size += _HEX_KEY_BYTES + _number_bytes(log_id) + _number_bytes(seq_num)
        if size > max_bytes:
            return None
    return size


def within(log_heights: Iterable[LogHeight], max_bytes: int) -> tuple[LogHeight, ...] | None:
    """Return the log heights unchanged; None if they exceed `max_bytes` bytes. Reads no more than fit."""
    taken: list[LogHeight] = []

    def looked_at() -> Iterator[LogHeight]:
        for log_height in log_heights:
            taken.append(log_height)
            yield log_height

    return None if size_within(looked_at(), max_bytes) is None else tuple(taken)


def _number_bytes(number: int) -> int:
    """Return the size of a number in CBOR, in bytes."""
    return 1 if number < 24 else 2 if number < 2**8 else 3 if number < 2**16 else 5 if number < 2**32 else 9


def grouped(log_heights: Iterable[LogHeight]) -> list[tuple[bytes, list[tuple[int, int]]]]:
    """Return the aquadoggo node's form: keys as bytes, each once."""
    return [
        (public_key, [(log_id, seq_num) for _, log_id, seq_num in logs])
        for public_key, logs in groupby(sorted(log_heights), key=itemgetter(0))
    ]


def decode_log_heights(items: Any) -> tuple[LogHeight, ...]:
    """Return the log heights of any of the three forms, in the order of arrival.

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
            return tuple(_decode_one(array(item, _ITEMS_PER_LOG, "a log height")) for item in items)
        if type(first[0]) is bytes:
            return _decode_grouped(items)
    raise ItemKindError("log heights start with a public key or with an array that starts with one")


def _decode_flat(items: list[Any]) -> tuple[LogHeight, ...]:
    if len(items) % _ITEMS_PER_LOG:
        raise ItemCountError(f"log heights come in threes, {len(items)} items are none")
    return tuple(map(_decode_one, zip(*[iter(items)] * _ITEMS_PER_LOG, strict=True)))


def _decode_one(items: Any) -> LogHeight:
    public_key, log_id, seq_num = items
    return key_from_hex(public_key), u64(log_id, "a log id"), u64(seq_num, "a sequence number", 1)


def _decode_grouped(items: list[Any]) -> tuple[LogHeight, ...]:
    log_heights: list[LogHeight] = []
    for item in items:
        public_key, logs = array(item, 2, "a public key with its logs")
        key_from_bytes(public_key)
        if type(logs) is not list:
            raise ItemKindError(f"the logs of a public key are an array, not {type(logs).__name__}")
        for log in logs:
            log_id, seq_num = array(log, 2, "a log id with its height")
            log_heights.append(
                (
                    public_key,
                    u64(_from_text(log_id), "a log id"),
                    u64(_from_text(seq_num), "a sequence number", 1),
                )
            )
    return tuple(log_heights)


def _from_text(value: Any) -> Any:
    if type(value) is str and len(value) <= _MAX_DIGITS and value.isascii() and value.isdecimal():
        return int(value)
    return value
