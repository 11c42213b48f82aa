"""The rows of logs as readers see them: checked when they are read from the file, the last ones in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from culm_connectors.logs.index import layout
from culm_connectors.logs.index.audit import checked_row
from culm_connectors.logs.index.environment import Environment
from culm_connectors.logs.index.layout import LogRow

_MAX_ROWS = 65_536


class RowCache:
    """Rows by log (40-byte key); the `_MAX_ROWS` that were read or written last stay in memory."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._rows: dict[bytes, LogRow | None] = {}

    def get(self, key: bytes) -> LogRow | None:
        """The row of a log, None for an unknown one. Raises IndexDamaged."""
        if key in self._rows:
            return self._rows[key]
        databases = self._environment.databases
        with self._environment.read() as transaction:
            value = transaction.get(key, db=databases[b"logs"])
            row = None if value is None else checked_row(transaction, databases, key, value)
        if row is not None:
            self._rows[key] = row
            self._bound()
        return row

    def kinds(self, keys: Sequence[bytes]) -> list[tuple[int, bool] | None]:
        """Of each log its schema's number and whether its first entry creates its document; None if unknown.

        Some 3 µs each; memory keeps none of them. Raises IndexDamaged.
        """
        databases = self._environment.databases
        found: list[tuple[int, bool] | None] = []
        with self._environment.read() as transaction:
            for key in keys:
                row = self._rows.get(key)
                if row is None and (value := transaction.get(key, db=databases[b"logs"])) is not None:
                    row = checked_row(transaction, databases, key, value)
                if row is None:
                    found.append(None)
                    continue
                place = None
                if row.document_id is not None:
                    place = transaction.get(layout.short_hash(row.document_id), db=databases[b"operations"])
                first = key + layout.U64.pack(1)
                found.append((row.schema_number, place is not None and place.startswith(first)))
        return found

    def adopt(self, rows: Mapping[bytes, LogRow | None]) -> None:
        """These were committed; None for a log that was removed."""
        for key in rows:
            self._rows.pop(key, None)
        self._rows.update(rows)
        self._bound()

    def _bound(self) -> None:
        while len(self._rows) > _MAX_ROWS:
            del self._rows[next(iter(self._rows))]
