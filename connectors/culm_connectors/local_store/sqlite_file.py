"""A database in SQLite of one folder, opened so that nobody is kept waiting by one that cannot be used."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from culm_connectors.errors import ConnectorError


@contextmanager
def opened_database(
    path: Path, busy_timeout_s: float, refused: type[ConnectorError]
) -> Iterator[sqlite3.Connection]:
    """A connection, made with its folder, that stays open unless what prepares it within the context fails.

    It begins its transactions by itself, and is for one thread at a time. Raises `refused`: the database, or
    what is read of it within the context, cannot be used.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        database = sqlite3.connect(
            path, timeout=busy_timeout_s, isolation_level=None, check_same_thread=False
        )
        try:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = NORMAL")
            yield database
        except BaseException:
            # Its transaction would keep whoever opens it next waiting.
            database.close()
            raise
    except (OSError, sqlite3.Error) as error:
        raise refused(f"{path} cannot be used: {error}") from error
