"""Some entries of a spool, one behind the other: in memory, or in a file of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from culm_connectors.chotki.spool.room import SpoolRoom

CHUNK_BYTES: Final = 1 << 20
"""A chunk that has so much gets no further entry."""
_LENGTH: Final = 4


class Chunk:
    """Entries of any bytes; `read` gives them back in their order, as often as one likes."""

    __slots__ = ("_data", "_path", "_room", "count", "size")

    def __init__(self, room: SpoolRoom) -> None:
        self.count = 0
        self.size = 0
        self._room = room
        self._data = bytearray()
        self._path: Path | None = None

    @property
    def is_on_disk(self) -> bool:
        """Whether it was spilled."""
        return self._path is not None

    @property
    def is_full(self) -> bool:
        """Whether the next entry belongs into another one."""
        return self.size >= CHUNK_BYTES

    def append(self, entry: bytes) -> None:
        """One entry more; none after `spill`."""
        assert self._path is None, "a file is written once"
        self._data += len(entry).to_bytes(_LENGTH, "big") + entry
        self.size = len(self._data)
        self.count += 1

    def spill(self) -> None:
        """Move it from memory to the disk. Raises `SpoolFull`."""
        if self._path is None:
            self._path = self._room.write(self._data)
            self._data = bytearray()

    def read(self, at: int, most: int, most_bytes: int) -> tuple[list[bytes], int]:
        """Entries from byte ``at`` on, and where the next one begins: one at least, if there is any."""
        if self._path is None:
            return self._entries(memoryview(self._data), at, most, most_bytes)
        with self._path.open("rb") as file:
            file.seek(at)
            data = file.read(max(most_bytes, _LENGTH))
            if len(data) >= _LENGTH and (first := _LENGTH + int.from_bytes(data[:_LENGTH], "big")) > len(
                data
            ):
                data += file.read(first - len(data))
        found, behind = self._entries(memoryview(data), 0, most, most_bytes)
        return found, at + behind

    def _entries(self, data: memoryview, at: int, most: int, most_bytes: int) -> tuple[list[bytes], int]:
        found: list[bytes] = []
        begun = at
        while len(found) < most and at + _LENGTH <= len(data):
            end = at + _LENGTH + int.from_bytes(data[at : at + _LENGTH], "big")
            if end > len(data) or (found and end - begun > most_bytes):
                break
            found.append(bytes(data[at + _LENGTH : end]))
            at = end
        data.release()
        return found, at

    def drop(self) -> None:
        """It is needed no longer."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
            self._room.give(self.size)
            self._path = None
        self._data = bytearray()
        self.count = self.size = 0
