"""Where the fields of an open sync wait: in memory while they are few, else in a file without a name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from culm_connectors.chotki.spool.room import SpoolRoom
from culm_connectors.chotki.storage_limits import OperandSizes
from culm_models.chotki.errors import SpoolFull

_MEMORY_BYTES: Final = 256 * 1024
_HEAD: Final = 22
_KEY: Final = 18


class DiskSpool:
    """Implements `Spool`. `keep` takes it away from its session: what is in it stays until `close`."""

    def __init__(self, room: SpoolRoom) -> None:
        self.bytes = 0
        self.sizes = OperandSizes()
        """How much each field may grow."""
        self._room = room
        self._file = room.open_file(_MEMORY_BYTES)
        self._kept = False

    def extend(self, fields: list[tuple[bytes, bytes]]) -> None:
        """See `Spool.extend`. Raises `SpoolFull`."""
        data = b"".join(key + len(value).to_bytes(4, "big") + value for key, value in fields)
        self._room.take(len(data))
        self.bytes += len(data)
        try:
            self._file.write(data)
        except OSError as error:
            raise SpoolFull(f"a diff that is not whole: {error}") from error
        self.sizes.add(fields)

    def fields(self) -> Iterator[tuple[bytes, bytes]]:
        """See `Spool.fields`."""
        self._file.seek(0)
        while head := self._file.read(_HEAD):
            yield head[:_KEY], self._file.read(int.from_bytes(head[_KEY:], "big"))

    def keep(self) -> None:
        """It is whole, and somebody else's now."""
        self._kept = True

    def drop(self) -> None:
        """See `Spool.drop`."""
        if not self._kept:
            self.close()

    def close(self) -> None:
        """Let the file go; again does nothing."""
        self._room.give(self.bytes)
        self.bytes = 0
        self._file.close()
