"""What was committed goes from the write-ahead log into the database itself, in a thread of its own.

SQLite by itself does this within every so many commits, and waits for the disk there: whoever stores a
transfer would stand still meanwhile. What was committed is as safe before it as behind it.
"""

from __future__ import annotations

import sqlite3
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final

_COMMITS: Final = 32
_LOG_PAGES_MAX: Final = 8_192
"""Where the thread does not keep up, commits wait for the disk as ever: the log has 32 MiB then."""


class Checkpoints:
    """Those of one database, one behind so many commits. Made, told of commits and closed by one thread.

    The thread begins with the first of them: who commits little never has one.
    """

    def __init__(self, database: sqlite3.Connection, path: Path) -> None:
        database.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES_MAX}")
        self._path = path
        self._commits = 0
        self._thread = ThreadPoolExecutor(1, "checkpoints")
        self._latest: Future[None] | None = None
        self._database: sqlite3.Connection | None = None

    def count_commit(self) -> None:
        """Something was committed."""
        self._commits += 1
        if self._commits >= _COMMITS and (self._latest is None or self._latest.done()):
            self._commits = 0
            self._latest = self._thread.submit(self._checkpoint)

    def close(self) -> None:
        """Wait for the latest one, and let go of the database."""
        self._thread.shutdown()
        if self._database is not None:
            self._database.close()

    def _checkpoint(self) -> None:
        if self._database is None:
            self._database = sqlite3.connect(self._path, check_same_thread=False, isolation_level=None)
            self._database.execute("PRAGMA synchronous = NORMAL")
        # It waits for nobody: what others still read or write is left to the next one.
        self._database.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
