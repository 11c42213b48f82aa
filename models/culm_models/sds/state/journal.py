"""The journal of a channel: additions to its log, filter and buffers, record by record.

A driver appends new records to its stored ones, so the cost of a step depends on its changes and not on the
size of the channel. A chunk is a CBOR array: format, kind (whole or continued), channel id, profile, the
marks before and after it, the filter's pairs and the records. A whole chunk also has the number and the
digests of the ids that left the log before, and the positions of the recent ones (see `snapshot`).

Every stored part of a channel is a CBOR array whose first item is a format number. The bytes are this side's
own, so only their outline is checked, not each value as in foreign bytes: a driver of many channels reads and
writes little else. `Malformed` bytes raise `SnapshotError`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import cbor2

from culm_models.sds.errors import BloomSnapshotError, JournalForgottenError, SnapshotError


def pack(format_number: int, *items: Any) -> bytes:
    """Encode a part: equal bytes for equal items."""
    return cbor2.dumps([format_number, *items])


@contextmanager
def unpacked(data: bytes, format_number: int, count: int, *, appended: int = 0) -> Iterator[list[Any]]:
    """Decode the items of `pack`; any error about them inside the block becomes a SnapshotError.

    There are `count` items and `appended` more, which are None in the bytes of an earlier version.
    """
    try:
        value = cbor2.loads(data)
        if (
            not isinstance(value, list)
            or len(value) not in (count + 1, count + 1 + appended)
            or value[0] != format_number
        ):
            raise SnapshotError(f"no part of a channel in format {format_number}")
        yield value[1:] + [None] * (count + 1 + appended - len(value))
    except (
        BloomSnapshotError,
        cbor2.CBORError,
        ArithmeticError,
        TypeError,
        ValueError,
        LookupError,
    ) as error:
        raise SnapshotError(f"no part of a channel: {error}") from error


LOGGED: Final = 0
"""[0, id, Lamport, sender, hint, digest]: the message is logged and no longer waits. Digest optional."""
WAITS: Final = 1
"""[1, id, Lamport, sender, hint, content, since, unmet ids, gap]"""
DROPPED: Final = 2
"""[2, id]: the message no longer waits and is unknown again."""
LOST: Final = 3
"""[3, id, times, when]: given up; messages that wait for it have a gap now. The last two are optional."""
HINT: Final = 4
"""[4, id, hint]"""
PENDING: Final = 5
"""[5, id, filter mark, wire before the filter, wire behind it]: sent, for as long as unacknowledged."""
QUARANTINED: Final = 6
"""[6, due, id, sender, Lamport, content, [[id, hint, sender], ...], hint]"""
RELEASED: Final = 7
"""[7, id]: no longer in quarantine."""
DISPUTED: Final = 8
"""[8, id]: another message with this id was reported."""
WITHDRAWN: Final = 9
"""[9, Lamport]: later messages have left the log and the waiting messages."""
Record: TypeAlias = tuple[Any, ...]

_MAX_BYTES: Final = 16 * 1024 * 1024
_RECORD_BYTES: Final = 200


class Journal:
    """The newest records; all are dropped if they are too many or too large for a driver that never asks."""

    __slots__ = ("_base", "_base_filter_mark", "_bytes", "_filter_marks", "_max_records", "_records")

    def __init__(self, max_records: int) -> None:
        self._max_records = max_records
        self._base = self._base_filter_mark = self._bytes = 0
        self._records: list[Record] = []
        self._filter_marks: list[int] = []

    @property
    def mark(self) -> int:
        """The number of records that were ever added."""
        return self._base + len(self._records)

    @property
    def filter_mark(self) -> int:
        """The filter's mark at the beginning of the kept records."""
        return self._base_filter_mark

    def add(self, record: Record, filter_mark: int, size: int = 0) -> None:
        """Add a record. `filter_mark`: the filter's mark with it; `size`: bytes of its large parts."""
        self._records.append(record)
        self._filter_marks.append(filter_mark)
        self._bytes += size + _RECORD_BYTES
        if len(self._records) > self._max_records or self._bytes > _MAX_BYTES:
            self.forget(self.mark, filter_mark)

    def forget(self, mark: int, filter_mark: int) -> None:
        """Drop all records; the next one follows `mark`."""
        self._base, self._base_filter_mark, self._bytes = mark, filter_mark, 0
        self._records.clear()
        self._filter_marks.clear()

    def forget_before(self, mark: int) -> None:
        """Drop the records up to a mark."""
        records, filter_mark = self.since(mark)
        marks = self._filter_marks[len(self._filter_marks) - len(records) :]
        kept = self._bytes if len(records) == len(self._records) else len(records) * _RECORD_BYTES
        self.forget(mark, filter_mark)
        self._records, self._filter_marks, self._bytes = records, marks, kept

    def since(self, mark: int) -> tuple[list[Record], int]:
        """Return the records after a mark and the filter's mark there; `JournalForgottenError` if dropped."""
        behind = mark - self._base
        if not 0 <= behind <= len(self._records):
            raise JournalForgottenError(
                f"the journal is kept from {self._base} to {self.mark}, not from {mark}"
            )
        return self._records[behind:], self._filter_marks[behind - 1] if behind else self._base_filter_mark
