"""Detects that a SQLite store can no longer be written, or is damaged, and stops all work on it.

Once a commit has failed, the state in memory may be ahead of the file, so no further step may run. The store
is then closed and opened again (`edge.opening`): when there is space, or as a new store filled from topics.
"""

from __future__ import annotations

import asyncio
import errno
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

from culm_connectors.local_store.errors import LocalStoreError, StoreDamaged, StoreFull

_FULL: Final = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY)
_DAMAGED: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)
_PROBE_BYTES: Final = 1024 * 1024
SPACE_HINT: Final = "free space on this disk; the protocol is served again within seconds"

Watching = Callable[[], AbstractContextManager[None]]
"""Makes the context of one step of work on a store."""


class StoreGuard:
    """Guards one store whose work runs in one thread; create it on the event loop that waits for `failed`.

    `on_damage` is called in that thread as soon as damage is detected.
    """

    def __init__(self, folder: Path, on_damage: Callable[[], None]) -> None:
        self.error: LocalStoreError | None = None
        """The error that stopped all work on the store; None while the store is usable."""
        self._folder = folder
        self._on_damage = on_damage
        self._loop = asyncio.get_running_loop()
        self._has_failed = asyncio.Event()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Run a step of work on the store.

        Raises `StoreFull`, `StoreDamaged`, and again for every later step.
        """
        if self.error is not None:
            raise self.error
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            failure = store_failure(self._folder, error)
            if failure is None:
                raise
            self.error = failure
            if isinstance(failure, StoreDamaged):
                self._on_damage()
            self._loop.call_soon_threadsafe(self._has_failed.set)
            raise failure from error

    async def failed(self) -> None:
        """Wait until the store has failed, and raise the error: `StoreFull` or `StoreDamaged`."""
        await self._has_failed.wait()
        assert self.error is not None, "set before the event"
        raise self.error


def store_failure(folder: Path, error: BaseException) -> LocalStoreError | None:
    """Return the store's error for an error of SQLite or the system; None if the store is not affected."""
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if code in _FULL:
            return StoreFull(f"{folder} cannot be written: {error}", hint=SPACE_HINT)
        if code in _DAMAGED:
            return StoreDamaged(f"{folder} is damaged: {error}")
    elif isinstance(error, OSError) and error.errno in _NO_SPACE:
        return StoreFull(f"{folder} cannot be written: {os.strerror(error.errno)}", hint=SPACE_HINT)
    return None


def has_space(directory: Path) -> bool:
    """Return whether one mebibyte can be written to the disk of a directory."""
    try:
        with tempfile.TemporaryFile(dir=directory) as file:
            file.write(bytes(_PROBE_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        return False
    return True
