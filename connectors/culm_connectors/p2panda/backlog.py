"""Records that wait to be told, bounded in number and bytes: what does not fit is refused."""

from __future__ import annotations

from collections.abc import Hashable

from culm_connectors.kafka import Record


class Backlog:
    """Records in order; a newer one of the same key takes the older one's place.

    At most `max_records` wait, and keys and values of at most `max_bytes`.
    """

    def __init__(self, max_records: int, max_bytes: int) -> None:
        self._max_records = max_records
        self._max_bytes = max_bytes
        self._records: dict[Hashable, Record] = {}
        self._number = 0
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._records)

    def fits(self, size_bytes: int) -> bool:
        """Whether there is room for a record of this size."""
        return len(self._records) < self._max_records and self.size_bytes + size_bytes <= self._max_bytes

    def add(self, record: Record, key: Hashable | None = None) -> bool:
        """Have a record wait, in the place of one of the same `key`; False when there is no room for it."""
        if key is None:
            self._number += 1
            key = self._number
        former = self._records.pop(key, None)
        if former is not None:
            self.size_bytes -= former.size_bytes
        if not self.fits(record.size_bytes):
            return False
        self._records[key] = record
        self.size_bytes += record.size_bytes
        return True

    def take(self) -> list[Record]:
        """All that wait; they wait no more."""
        records = list(self._records.values())
        self._records.clear()
        self.size_bytes = 0
        return records
