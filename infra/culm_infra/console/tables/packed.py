"""Records of a compacted topic in memory: the latest value of each key, packed and sorted by key.

They are rows of an SQLite database that is never on disk. It takes about 30 bytes per record besides key and
value, and finds keys by range, by their start from a position on, and by their contents, without decoding.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

_PAGE_BYTES: Final = 4096
_ABOVE_ALL: Final = b"\xff" * 128
"""Above every key that a page begins with; keys of topics have at most about 3,000 bytes."""
_MAX_AMONG: Final = 500

Packed = tuple[bytes, bytes]
"""Key and value."""


class TableMemory:
    """Memory for records that several tables share, in bytes."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._used: dict[int, int] = {}
        self._lock = threading.Lock()

    def report(self, holder: object, used_bytes: int) -> None:
        """Set what a holder uses; 0 removes it."""
        with self._lock:
            if used_bytes:
                self._used[id(holder)] = used_bytes
            else:
                self._used.pop(id(holder), None)

    @property
    def free_bytes(self) -> int:
        """The memory that is left; negative if updates of present records have exceeded the limit."""
        with self._lock:
            return self.max_bytes - sum(self._used.values())


@dataclass(frozen=True, slots=True)
class Match:
    """A condition on keys, from byte `at` on: they start with `data`, or contain it."""

    data: bytes
    at: int = 0
    anywhere: bool = False


def above(prefix: bytes) -> bytes:
    """Return the least key above all keys that start with `prefix`."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes((stripped[-1] + 1,)) if stripped else _ABOVE_ALL


class PackedRecords:
    """The latest value of each key. For several threads.

    A record that exceeds the memory is left out and counted; values of present keys are always replaced.
    """

    def __init__(self, memory: TableMemory) -> None:
        self.left_out = 0
        """Number of records that were left out."""
        self.version = 0
        """Grows with every change."""
        self._memory = memory
        self._lock = threading.RLock()
        self._database = _empty()

    def apply(self, records: Sequence[Packed]) -> None:
        """Apply records in order; an empty value removes the key."""
        if not records:
            return
        with self._lock:
            execute = self._database.execute
            free_bytes = self._memory.free_bytes
            execute("BEGIN")
            for key, value in records:
                if not value:
                    execute("DELETE FROM records WHERE key = ?", (key,))
                    continue
                size = len(key) + len(value)
                if size <= free_bytes:
                    execute("INSERT OR REPLACE INTO records VALUES (?, ?)", (key, value))
                    free_bytes -= size
                elif not execute("UPDATE records SET value = ? WHERE key = ?", (value, key)).rowcount:
                    self.left_out += 1
            execute("COMMIT")
            self.version += 1
            self._memory.report(self, self.size_bytes)

    @property
    def size_bytes(self) -> int:
        """The memory in use."""
        with self._lock:
            return self._number("PRAGMA page_count") * _PAGE_BYTES

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key."""
        with self._lock:
            row = self._database.execute("SELECT value FROM records WHERE key = ?", (key,)).fetchone()
        return None if row is None else row[0]

    def get_all(self, keys: Iterable[bytes]) -> list[Packed]:
        """Return the records of these keys, as far as they are present."""
        query = "SELECT key, value FROM records WHERE key = ?"
        with self._lock:
            rows = (self._database.execute(query, (key,)).fetchone() for key in keys)
            return [row for row in rows if row is not None]

    def select(self, low: bytes, high: bytes, *, limit: int = -1, match: Match | None = None) -> list[Packed]:
        """Return records from key `low` on, below `high`, in order of the keys."""
        condition, values = _where(low, high, match)
        return self._all(f"SELECT key, value FROM records WHERE {condition} LIMIT ?", (*values, limit))

    def keys(self, low: bytes, high: bytes, *, limit: int = -1, match: Match | None = None) -> list[bytes]:
        """Return keys from `low` on, below `high`, in order."""
        condition, values = _where(low, high, match)
        return [
            key
            for (key,) in self._all(f"SELECT key FROM records WHERE {condition} LIMIT ?", (*values, limit))
        ]

    def among(self, low: bytes, high: bytes, at: int, ends: Collection[bytes]) -> list[Packed]:
        """Return the records of the range whose keys from byte `at` on are one of `ends`."""
        assert len(ends) <= _MAX_AMONG
        places = ", ".join("?" * len(ends))
        return self._all(
            "SELECT key, value FROM records WHERE key >= ? AND key < ? "
            f"AND substr(key, ?) IN ({places}) ORDER BY key",
            (low, high, at + 1, *ends),
        )

    def distinct(self, low: bytes, high: bytes, at: int, length: int | None = None) -> list[bytes]:
        """Return the different parts of keys from byte `at` on, in order."""
        part = "substr(key, ?)" if length is None else f"substr(key, ?, {length})"
        query = f"SELECT DISTINCT {part} AS part FROM records WHERE key >= ? AND key < ? ORDER BY part"
        return [value for (value,) in self._all(query, (at + 1, low, high))]

    def count(self, low: bytes, high: bytes) -> int:
        """Return the number of keys from `low` on, below `high`."""
        with self._lock:
            return self._number("SELECT count(*) FROM records WHERE key >= ? AND key < ?", (low, high))

    def clear(self) -> None:
        """Remove everything and release the memory."""
        with self._lock:
            self._database.close()
            self._database = _empty()
            self.left_out = 0
            self.version += 1
            self._memory.report(self, 0)

    def _all(self, query: str, values: Iterable[Any]) -> list[Any]:
        with self._lock:
            return self._database.execute(query, tuple(values)).fetchall()

    def _number(self, query: str, values: tuple[Any, ...] = ()) -> int:
        (number,) = self._database.execute(query, values).fetchone()
        return int(number)


def _where(low: bytes, high: bytes, match: Match | None) -> tuple[str, tuple[Any, ...]]:
    condition, values = "key >= ? AND key < ?", (low, high)
    if match is None:
        return f"{condition} ORDER BY key", values
    if match.anywhere:
        return f"{condition} AND instr(substr(key, ?), ?) > 0 ORDER BY key", (
            *values,
            match.at + 1,
            match.data,
        )
    return (
        f"{condition} AND substr(key, ?, ?) = ? ORDER BY key",
        (*values, match.at + 1, len(match.data), match.data),
    )


def _empty() -> sqlite3.Connection:
    database = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
    database.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
    database.execute("PRAGMA journal_mode = OFF")
    database.execute("CREATE TABLE records (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID")
    return database
