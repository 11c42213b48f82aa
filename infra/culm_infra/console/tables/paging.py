"""Parts that the tables of all protocols share: their sources, hex in searches and keys, and cursors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from culm_infra.console.tables import BadRequest, Column, NotFound, TableContext
from culm_infra.console.tables.follower import FollowedForm, FollowedTopic
from culm_infra.console.tables.packed import Match, Packed, PackedRecords, TableMemory, above
from culm_infra.console.tables.scan import Scans

_HEX: Final = re.compile("[0-9a-f]*")


class TableSources:
    """The followed topics and the scans of one console, which its tables share."""

    def __init__(self, context: TableContext) -> None:
        self.kafka = context.kafka
        self.scans = Scans(context.scan_timeout_s)
        self._memory = TableMemory(context.max_table_bytes)
        self._topics: dict[str, FollowedTopic] = {}
        context.stack.callback(self._close)

    @classmethod
    def of(cls, context: TableContext) -> TableSources:
        """Return the sources of a console, created at the first call."""
        if "sources" not in context.shared:
            context.shared["sources"] = cls(context)
        sources = context.shared["sources"]
        assert isinstance(sources, TableSources)
        return sources

    def follow(self, form: FollowedForm) -> FollowedTopic:
        """Return the topic; it is read when a table uses it. Tables that share a topic share its records."""
        if form.topic not in self._topics:
            self._topics[form.topic] = FollowedTopic(self.kafka, form, self._memory)
        return self._topics[form.topic]

    def _close(self) -> None:
        for topic in self._topics.values():
            topic.stop()
        for topic in self._topics.values():
            topic.close()


def columns(*described: str) -> tuple[Column, ...]:
    """Return columns described as `name kind Title`."""
    made = []
    for text in described:
        name, kind, title = text.split(" ", 2)
        made.append(Column(name, title, kind))  # type: ignore[arg-type]
    return tuple(made)


def hex_search(search: str, what: str) -> str:
    """Return a search for the start of an id in hex. Raises `BadRequest` for other text."""
    digits = search.lower()
    if not _HEX.fullmatch(digits):
        raise BadRequest(f"{search[:80]!r} is not the start of {what}, which is in hex")
    return digits


def is_hex(text: str) -> bool:
    """Whether a text consists of hex digits."""
    return _HEX.fullmatch(text.lower()) is not None


def least_bytes(digits: str, size: int) -> bytes:
    """Return the least bytes of a size whose hex starts with these digits; longer digits are cut."""
    return bytes.fromhex(digits[: 2 * size].ljust(2 * size, "0"))


def key_bytes(key: str, size: int | None = None) -> bytes:
    """Return the bytes of a row's key in hex. Raises `NotFound` if there can be no such row."""
    try:
        raw = bytes.fromhex(key)
    except ValueError:
        raw = b""
    if not raw or (size is not None and len(raw) != size):
        raise NotFound(f"there is no row {key[:80]!r}")
    return raw


def cursor_bytes(cursor: str) -> bytes:
    """Return the bytes of a cursor in hex. Raises `BadRequest`."""
    try:
        return bytes.fromhex(cursor)
    except ValueError as error:
        raise BadRequest("the cursor is not one of this table's") from error


def hex_range(prefix: bytes, digits: str) -> tuple[bytes, bytes]:
    """Return the least key with a prefix and then bytes whose hex starts with these digits, and the end."""
    odd = len(digits) & 1
    return prefix + bytes.fromhex(digits + "0" * odd), above(prefix + bytes.fromhex(digits + "f" * odd))


def page_of(
    records: PackedRecords, low: bytes, high: bytes, cursor: str, limit: int, match: Match | None = None
) -> tuple[Sequence[Packed], str | None]:
    """Return records of a range after the cursor, and the cursor of the next page.

    A cursor is the last key, so records that are added or removed elsewhere do not shift the pages.
    """
    if cursor:
        low = max(low, cursor_bytes(cursor) + b"\x00")
    rows = records.select(low, high, limit=limit + 1, match=match)
    following = rows[limit - 1][0].hex() if len(rows) > limit else None
    return rows[:limit], following
