"""Parts that the tables of all protocols share: their sources, hex in searches and keys, and pages."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from culm_infra.console.tables import (
    BadRequest,
    Column,
    DetailField,
    NotFound,
    TableContext,
    TablePage,
    TableRow,
    TableSpec,
)
from culm_infra.console.tables.follower import FollowedForm, FollowedTopic, combined
from culm_infra.console.tables.packed import Match, TableMemory, above
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
    topic: FollowedTopic,
    prefix: bytes,
    row: Callable[[bytes, bytes], TableRow],
    cursor: str,
    limit: int,
    *,
    digits: str = "",
    match: Match | None = None,
    if_empty: str | None = None,
) -> TablePage:
    """Return the page after the cursor of the records of a topic whose keys start with a prefix.

    A search is for keys that continue with hex digits, or for those that match. `row` makes a row of a key
    and a value; `if_empty` is the note if there are no such records. A cursor is the last key, so records
    that are added or removed elsewhere do not shift the pages.
    """
    extent = topic.extent()
    low, high = hex_range(prefix, digits)
    if cursor:
        low = max(low, cursor_bytes(cursor) + b"\x00")
    found = topic.records.select(low, high, limit=limit + 1, match=match)
    is_search = bool(digits) or match is not None
    total = None if is_search else topic.records.count(prefix, above(prefix))
    state = combined([extent], if_empty if total == 0 else None)
    return TablePage(
        [row(key, value) for key, value in found[:limit]],
        found[limit - 1][0].hex() if len(found) > limit else None,
        total,
        state.complete,
        state.note,
        state.as_of_ms,
    )


def fields_of(spec: TableSpec, cells: Mapping[str, Any]) -> list[DetailField]:
    """Return the cells of a row as fields of its detail."""
    return [DetailField(column.title, cells[column.name], column.kind) for column in spec.columns]
