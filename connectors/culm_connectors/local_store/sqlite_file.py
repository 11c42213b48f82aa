"""Opens the SQLite database of a folder, and closes it at once if it cannot be used."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from culm_connectors.errors import ConnectorError


@contextmanager
def opening_database(
    path: Path, busy_timeout_s: float, refused: type[ConnectorError]
) -> Iterator[sqlite3.Connection]:
    """Yield a connection that stays open after the context unless the code in the context raises.

    The folder is created if it does not exist. The connection is in autocommit mode and is for one thread at
    a time. Raises `refused`: the database, or data read in the context, cannot be used.
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
            # An open transaction would block the next opening.
            database.close()
            raise
    except (OSError, sqlite3.Error) as error:
        raise refused(f"{path} cannot be used: {error}") from error
