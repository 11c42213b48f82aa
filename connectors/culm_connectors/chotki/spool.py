"""Where the fields of an open sync wait: in memory while they are few, else in a file without a name."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import BinaryIO, Final, cast

_MEMORY_BYTES: Final = 256 * 1024
_HEAD: Final = 22
_KEY: Final = 18


class DiskSpool:
    """Implements `Spool`. `keep` takes it away from its session: what is in it stays until `close`."""

    def __init__(self) -> None:
        # It outlives the session that fills it.
        self._file = cast(BinaryIO, tempfile.SpooledTemporaryFile(max_size=_MEMORY_BYTES))  # noqa: SIM115
        self._kept = False

    def extend(self, fields: list[tuple[bytes, bytes]]) -> None:
        """See `Spool.extend`."""
        self._file.write(b"".join(key + len(value).to_bytes(4, "big") + value for key, value in fields))

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
        """Let the file go."""
        self._file.close()
