"""The folder of what is spooled, and how much of the disk it may take (reference 10, 6)."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path
from typing import Any, BinaryIO, cast

from culm_models.chotki.errors import SpoolFull


class SpoolRoom:
    """So many bytes in a folder. What a former run left there is removed.

    Whoever writes takes the room before and gives it back. `used_bytes` is what is taken.
    """

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self.used_bytes = 0
        self._folder = folder
        self._max_bytes = max_bytes
        self._numbers = itertools.count()
        folder.mkdir(parents=True, exist_ok=True)
        for one in folder.glob("chunk-*"):
            one.unlink()

    def take(self, size: int) -> None:
        """Raises `SpoolFull` where there is no room for so many bytes more."""
        if self.used_bytes + size > self._max_bytes:
            raise SpoolFull(f"{self.used_bytes} of {self._max_bytes} bytes are waiting on disk")
        self.used_bytes += size

    def give(self, size: int) -> None:
        """So many bytes are needed no longer."""
        self.used_bytes -= size

    def write(self, data: bytes | bytearray) -> Path:
        """Keep these bytes in a file of their own, of which the room is taken. Raises `SpoolFull`."""
        self.take(len(data))
        path = self._folder / f"chunk-{next(self._numbers)}"
        try:
            path.write_bytes(data)
        except OSError as error:
            self.give(len(data))
            path.unlink(missing_ok=True)
            raise SpoolFull(f"{path}: {error}") from error
        return path

    def open_file(self, memory_bytes: int) -> BinaryIO:
        """A file without a name, in memory while it is small. The room is its owner's to take."""
        # It outlives the call.
        file: Any = tempfile.SpooledTemporaryFile(max_size=memory_bytes, dir=str(self._folder))  # noqa: SIM115
        return cast(BinaryIO, file)
