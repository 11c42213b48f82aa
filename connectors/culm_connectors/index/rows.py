"""The rows of logs as readers see them: checked when they are read from the file, the last ones in memory."""

from __future__ import annotations

from collections.abc import Mapping

from culm_connectors.index.audit import checked_row
from culm_connectors.index.environment import Environment
from culm_connectors.index.layout import LogRow

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

    def adopt(self, rows: Mapping[bytes, LogRow | None]) -> None:
        """These were committed; None for a log that was removed."""
        for key in rows:
            self._rows.pop(key, None)
        self._rows.update(rows)
        self._bound()

    def _bound(self) -> None:
        while len(self._rows) > _MAX_ROWS:
            del self._rows[next(iter(self._rows))]
