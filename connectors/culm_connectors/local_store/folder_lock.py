"""One process at a time over a folder: an exclusive lock on a file in it, which ends with the process."""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from culm_connectors.errors import ConnectorError


class FolderLock:
    """Exclusive lock on a folder, held from the constructor until `release`; `take` takes it again.

    The folder is created if it does not exist. `in_use` makes the error that is raised if another process
    holds the lock.
    """

    def __init__(self, folder: Path, in_use: Callable[[], ConnectorError], *, file_name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._path = folder / file_name
        self._in_use = in_use
        self._file: TextIO | None = None
        self.take()

    def take(self) -> None:
        """Take the lock unless this object holds it. Raises what `in_use` makes, `OSError`."""
        if self._file is not None:
            return
        file = self._path.open("a")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.close()
            if isinstance(error, BlockingIOError):
                raise self._in_use() from None
            raise
        self._file = file

    def release(self) -> None:
        """Release the lock; does nothing if this object does not hold it."""
        if self._file is not None:
            self._file.close()
            self._file = None
