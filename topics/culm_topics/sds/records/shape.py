"""Items that several SDS records have: ids, hints and details."""

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any, Final

from culm_models.sds.wire.messages import Profile
from culm_topics.errors import RecordError
from culm_topics.records.kinds import MAX_UINT, Kind, rule, sized_between, utf8_size
from culm_topics.records.shape import item_size, require

MAX_ID_BYTES = 1_024
"""The longest channel, participant or message id that a record takes, in bytes of UTF-8."""
MAX_HINT_BYTES = 1_024
"""The longest retrieval hint that a record takes."""
MAX_DETAILS = 64
"""Entries of one map of settings or details."""
MAX_DETAIL_ITEMS = 10_000
"""Items of one list among the details."""
MAX_NAME_BYTES = 64

Detail = None | bool | int | float | str | bytes | tuple[str, ...]
"""One detail: a number (a float is finite and written with 64 bits), a text, bytes, several ids, nothing."""
Details = Mapping[str, Detail]
"""By name, in the names' order of bytes; the order of insertion does not matter to what is written."""

SomeProfile = Annotated[Profile, rule("profile")]
SomeId = Annotated[str, sized_between(1, MAX_ID_BYTES), rule("id")]
SenderId = Annotated[str, sized_between(0, MAX_ID_BYTES), rule("sender-id")]
"""An id that may be empty."""
Hint = Annotated[bytes, sized_between(0, MAX_HINT_BYTES), rule("hint")]


def is_id(text: str, *, empty: bool = False) -> bool:
    """Whether `text` may be an id in these records: not empty unless `empty`, at most `MAX_ID_BYTES`."""
    return (0 if empty else 1) <= utf8_size(text) <= MAX_ID_BYTES


def require_id(record: str, name: str, text: str) -> None:
    """Refuse an id that no record takes."""
    require(is_id(text), record, f"{name} is no id of at most {MAX_ID_BYTES} bytes")


def _packed_details(details: Details) -> dict[str, Any]:
    """The details as they are written: sorted by name, so that equal details give equal bytes.

    Raises `RecordError` for more than `MAX_DETAILS`, and for names that are no names.
    """
    require(len(details) <= MAX_DETAILS, "details", f"more than {MAX_DETAILS} of them")
    for name in details:
        if not 0 < len(name.encode()) <= MAX_NAME_BYTES:
            raise RecordError(f"details: a name that is not 1 to {MAX_NAME_BYTES} bytes")
    return dict(sorted(details.items(), key=lambda item: item[0].encode()))


def _read_details(items: Mapping[str, Any]) -> dict[str, Detail]:
    return {name: tuple(item) if type(item) is list else item for name, item in items.items()}


def _are_details(items: dict[Any, Any]) -> bool:
    for name, item in items.items():
        if type(name) is not str or not 1 <= len(name.encode()) <= MAX_NAME_BYTES or not _is_detail(item):
            return False
    return all(before.encode() < after.encode() for before, after in pairwise(items))


def _is_detail(item: object) -> bool:
    if type(item) is float:
        return math.isfinite(item)
    if type(item) is int:
        return 0 <= item <= MAX_UINT
    if type(item) is list:
        return len(item) <= MAX_DETAIL_ITEMS and all(type(one) is str for one in item)
    return item is None or type(item) in (bool, str, bytes)


_DETAIL: Final = Kind(
    "uint / float64 / bool / tstr / bstr / [*10000 tstr] / null", "a detail", "True", rule="detail"
)
DETAILS: Final = Kind(
    cddl="{* tstr => detail}",
    wanted=f"a map of at most {MAX_DETAILS} details, sorted by names of at most {MAX_NAME_BYTES} bytes",
    sound=f"type({{x}}) is dict and len({{x}}) <= {MAX_DETAILS} and are_details({{x}})",
    size="item_size({x})",
    read="read_details({x})",
    write="packed_details({x})",
    names={
        "are_details": _are_details,
        "item_size": item_size,
        "read_details": _read_details,
        "packed_details": _packed_details,
    },
    rule="details",
    note=f"at most {MAX_DETAILS}, names of 1 to {MAX_NAME_BYTES} bytes, sorted by name",
    uses={"detail": _DETAIL},
)
SomeDetails = Annotated[Details, DETAILS]
