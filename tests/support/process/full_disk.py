"""Disks without space, and files that a disk has damaged."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import lmdb
import pytest

from culm_connectors.edge.opening import reopening

PAGE = 4_096
_EVERY_PAGE = 2**31


def leave_no_space(database: sqlite3.Connection) -> None:
    """SQLite fails with the error of a full disk when the file would have more pages than now."""
    (pages,) = database.execute("PRAGMA page_count").fetchone()
    database.execute(f"PRAGMA max_page_count = {max(1, pages)}")


def leave_space(database: sqlite3.Connection) -> None:
    """SQLite has space again."""
    database.execute(f"PRAGMA max_page_count = {_EVERY_PAGE}")


def lose_pages(path: Path) -> None:
    """Overwrite a file of lmdb but for its two heads with zeros, as a disk that lost writes does."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(2 * PAGE)
        file.write(bytes(size - 2 * PAGE))


class Disk:
    """The disk of the connectors of a test, as far as they ask it for space."""

    def __init__(self) -> None:
        self.has_space = True
        self.asked = 0

    def answer(self, directory: Path) -> bool:
        self.asked += 1
        return self.has_space

    def open_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """No store can be opened while there is no space."""
        open_lmdb: Any = lmdb.open
        connect: Any = sqlite3.connect

        def opened(*arguments: Any, **options: Any) -> Any:
            if not self.has_space:
                raise lmdb.DiskError("No space left on device")
            return open_lmdb(*arguments, **options)

        def connected(*arguments: Any, **options: Any) -> Any:
            database = connect(*arguments, **options)
            if not self.has_space:
                leave_no_space(database)
            return database

        monkeypatch.setattr(lmdb, "open", opened)
        monkeypatch.setattr(sqlite3, "connect", connected)


def made_disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    """A disk that has space, and is asked often while it has none."""
    made = Disk()
    monkeypatch.setattr(reopening, "has_space", made.answer)
    monkeypatch.setattr(reopening, "RETRY_INTERVAL_S", 0.05)
    return made
