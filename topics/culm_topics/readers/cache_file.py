"""A local SQLite file with the contents of a topic, for readers whose state may exceed the memory.

Rows and the offsets that they cover change in one transaction, so the file always holds a past state of the
topic. It is a cache: a file of another origin (another topic) or another layout, or a damaged one, is emptied
and filled again. Memory is bounded by a page cache. Without a path the file is a private temporary one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from culm_topics.errors import TopicsError

_CACHE_KIB: Final = 32 * 1024
_ABOUT: Final = "CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value BLOB NOT NULL);\n"
_TABLE_NAMES: Final = "SELECT name FROM main.sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"


class CacheFile:
    """The tables of one reader. One program at a time uses a file.

    `layout` is the number of the `tables` (an SQL script in which each table is created if it does not
    exist); `temporary_tables` are made anew each time. `origin` identifies the topic. `failed` makes the
    error for a file that cannot be used: for its folder or its disk, or because another program uses it.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        layout: int,
        tables: str,
        temporary_tables: str = "",
        origin: bytes = b"",
        failed: Callable[[str], TopicsError],
    ) -> None:
        self.path = path
        self._layout = layout
        self._scripts = (f"PRAGMA user_version = {layout};\n", _ABOUT, tables, temporary_tables)
        self._failed = failed
        try:
            self._file = self._open(origin)
        except sqlite3.DatabaseError as error:
            if path is None or isinstance(error, sqlite3.OperationalError):
                raise failed(f"{path or 'the temporary file'}: {error}") from error
            # Damaged, or another kind of file. A cache is deleted without asking.
            for ending in ("", "-wal", "-shm"):
                path.with_name(path.name + ending).unlink(missing_ok=True)
            self._file = self._open(origin)

    def _open(self, origin: bytes) -> sqlite3.Connection:
        try:
            if self.path is not None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            # With an empty name SQLite uses a private file, which is deleted when it is closed.
            file = sqlite3.connect(self.path or "", timeout=0, isolation_level=None, check_same_thread=False)
        except (OSError, sqlite3.OperationalError) as error:
            raise self._failed(f"{self.path}: {error}") from error
        try:
            file.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
            file.execute("PRAGMA temp_store = FILE")
            file.execute("PRAGMA locking_mode = EXCLUSIVE")
            if self.path is None:
                file.execute("PRAGMA synchronous = OFF")
            else:
                file.execute("PRAGMA journal_mode = WAL")
                # A cache may lose its last transactions in a power failure, but never half of one.
                file.execute("PRAGMA synchronous = NORMAL")
            if file.execute("PRAGMA user_version").fetchone() != (self._layout,):
                file.executescript("".join(f"DROP TABLE {name};\n" for name in _tables(file)))
            file.executescript("".join(self._scripts))
            with _transaction(file):
                stored_origin = file.execute("SELECT value FROM about WHERE name = 'origin'").fetchone()
                if stored_origin != (origin,):
                    for name in _tables(file):
                        file.execute(f"DELETE FROM {name}")
                    file.execute("INSERT INTO about VALUES ('origin', ?)", (origin,))
        except BaseException:
            file.close()
            raise
        return file

    def close(self) -> None:
        """Close the file; a temporary one is deleted."""
        self._file.close()

    def about(self, name: str) -> bytes | None:
        """Return the value stored under this name; None if there is none."""
        rows = self.rows("SELECT value FROM about WHERE name = ?", name)
        return rows[0][0] if rows else None

    def rows(self, query: str, *values: object) -> list[Any]:
        """Execute a statement. Returns its rows."""
        with self._reported():
            return self._file.execute(query, values).fetchall()

    def each_row(self, query: str, values: Sequence[object] = ()) -> Iterator[Any]:
        """Execute a statement, and yield its rows one by one."""
        with self._reported():
            yield from self._file.execute(query, values)

    def write_all(self, statement: str, rows: Iterable[Sequence[object]]) -> None:
        """Execute a statement for each of these rows."""
        with self._reported():
            self._file.executemany(statement, rows)

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction has begun."""
        return self._file.in_transaction

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Do everything inside in one transaction, or in the one that has begun; nothing after an error."""
        with self._reported(), _transaction(self._file):
            yield

    @contextmanager
    def _reported(self) -> Iterator[None]:
        """Raise errors of SQLite as those of the reader."""
        try:
            yield
        except sqlite3.Error as error:
            raise self._failed(f"{self.path or 'the temporary file of the state'}: {error}") from error


def _tables(file: sqlite3.Connection) -> list[str]:
    return [name for (name,) in file.execute(_TABLE_NAMES)]


@contextmanager
def _transaction(file: sqlite3.Connection) -> Iterator[None]:
    try:
        if not file.in_transaction:
            file.execute("BEGIN IMMEDIATE")
        yield
        file.execute("COMMIT")
    except BaseException:
        if file.in_transaction:
            file.execute("ROLLBACK")
        raise
