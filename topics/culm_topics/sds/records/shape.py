"""Items that several SDS records have, each checked where it comes in: ids, hints and details.

As in `culm_topics.records.shape`, each `…_size` gives its item's part of the record's length, or raises
`RecordError`.
"""

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, get_args

from culm_models.sds.wire.messages import Profile
from culm_topics.errors import RecordError
from culm_topics.records.keys import PEER_ID_SIZE
from culm_topics.records.shape import MAX_UINT, item_size, refuse_item, require, string_size, text_size

MAX_ID_BYTES = 1_024
"""The longest channel, participant or message id that a record takes, in bytes of UTF-8."""
MAX_HINT_BYTES = 1_024
"""The longest retrieval hint that a record takes."""
MAX_DETAILS = 64
"""Entries of one map of settings or details."""
MAX_DETAIL_ITEMS = 10_000
"""Items of one list among the details."""
MAX_NAME_BYTES = 64

PROFILES: tuple[Profile, ...] = get_args(Profile)

Detail = None | bool | int | float | str | bytes | tuple[str, ...]
"""One detail: a number (a float is finite and written with 64 bits), a text, bytes, several ids, nothing."""
Details = Mapping[str, Detail]
"""By name, in the names' order of bytes; the order of insertion does not matter to `packed_details`."""


def is_id(text: str, *, empty: bool = False) -> bool:
    """Whether `text` may be an id in these records: not empty unless `empty`, at most `MAX_ID_BYTES`."""
    try:
        size = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError:
        return False  # half of a surrogate pair, as in an argument of a command that is not UTF-8
    return size <= MAX_ID_BYTES and (empty or size > 0)


def require_id(record: str, name: str, text: str | None, *, empty: bool = False) -> None:
    """Refuse to write an id that `id_size` would not take; None stands for an id that is left out."""
    if text is not None and not is_id(text, empty=empty):
        raise RecordError(f"{record}: {name} is no id of at most {MAX_ID_BYTES} bytes")


def require_hint(record: str, hint: bytes | None) -> None:
    """Refuse to write a retrieval hint that `hint_size` would not take."""
    if hint is not None and len(hint) > MAX_HINT_BYTES:
        raise RecordError(f"{record}: a retrieval hint of more than {MAX_HINT_BYTES} bytes")


def require_peer_id(record: str, peer_id: bytes | None) -> None:
    """Refuse to write a peer id that is not 32 bytes; None stands for one that is left out."""
    if peer_id is not None and len(peer_id) != PEER_ID_SIZE:
        raise RecordError(f"{record}: a peer id that is not {PEER_ID_SIZE} bytes")


def id_size(record: str, name: str, item: object, *, empty: bool = False) -> int:
    """A channel, participant or message id."""
    if type(item) is not str or not is_id(item, empty=empty):
        refuse_item(record, name, item, f"an id of at most {MAX_ID_BYTES} bytes")
    return text_size(item)


def optional_id_size(record: str, name: str, item: object) -> int:
    """An id, or null."""
    return 1 if item is None else id_size(record, name, item)


def hint_size(record: str, item: object) -> int:
    """A retrieval hint, or null."""
    if item is None:
        return 1
    if type(item) is not bytes or len(item) > MAX_HINT_BYTES:
        refuse_item(record, "retrieval_hint", item, f"at most {MAX_HINT_BYTES} bytes or null")
    return string_size(len(item))


def packed_details(details: Details) -> dict[str, Any]:
    """The details as they are written: sorted by name, so that equal details give equal bytes.

    Raises `RecordError` for more than `MAX_DETAILS`, and for names that are no names.
    """
    require(len(details) <= MAX_DETAILS, "details", f"more than {MAX_DETAILS} of them")
    for name in details:
        if not 0 < len(name.encode()) <= MAX_NAME_BYTES:
            raise RecordError(f"details: a name that is not 1 to {MAX_NAME_BYTES} bytes")
    return dict(sorted(details.items(), key=lambda item: item[0].encode()))


def details_size(record: str, name: str, items: object) -> int:
    """A map of details, sorted by name."""
    if type(items) is not dict or len(items) > MAX_DETAILS:
        refuse_item(record, name, items, f"a map of at most {MAX_DETAILS} entries")
    for key, item in items.items():
        if type(key) is not str or not 1 <= len(key.encode()) <= MAX_NAME_BYTES:
            refuse_item(record, f"a name of {name}", key, f"a text of at most {MAX_NAME_BYTES} bytes")
        if not _is_detail(item):
            refuse_item(record, f"{name}.{key}", item, "a number, a text, bytes, a list of texts or null")
    if any(before.encode() >= after.encode() for before, after in pairwise(items)):
        refuse_item(record, name, items, "sorted by name")
    return item_size(items)


def read_details(items: Mapping[str, Any]) -> dict[str, Detail]:
    """Details that `details_size` has let through, lists as tuples."""
    return {name: tuple(item) if type(item) is list else item for name, item in items.items()}


def _is_detail(item: object) -> bool:
    if type(item) is float:
        return math.isfinite(item)
    if type(item) is int:
        return 0 <= item <= MAX_UINT
    if type(item) is list:
        return len(item) <= MAX_DETAIL_ITEMS and all(type(one) is str for one in item)
    return item is None or type(item) in (bool, str, bytes)
