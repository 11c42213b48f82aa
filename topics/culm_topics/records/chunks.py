"""Data larger than a record: cut into chunks, and reassembled from chunks in any order.

Neither direction holds all the data in memory: cutting holds one chunk, and received chunks go to a file that
is on disk once it exceeds one MiB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from tempfile import SpooledTemporaryFile
from typing import Final

from culm_topics.closing import Closing
from culm_topics.errors import TopicsError

_IN_MEMORY_BYTES: Final = 1024 * 1024
_READ_BYTES: Final = 1024 * 1024


def cut_chunks(
    parts: Iterable[bytes | memoryview],
    size: int,
    chunk_bytes: int,
    refuse: Callable[[str], TopicsError],
) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, bytes) of each chunk in order; the parts may have any length.

    If the parts do not have `size` bytes in total, raises the error that `refuse` makes of the reason, after
    it has yielded the complete chunks.
    """
    buffer = bytearray()
    offset = 0
    for part in parts:
        for start in range(0, len(part), chunk_bytes):
            buffer += part[start : start + chunk_bytes]
            while len(buffer) >= chunk_bytes and offset + chunk_bytes <= size:
                yield offset, bytes(buffer[:chunk_bytes])
                del buffer[:chunk_bytes]
                offset += chunk_bytes
            if offset + len(buffer) > size:
                raise refuse(f"of {size} bytes has more of them")
    if offset + len(buffer) != size:
        raise refuse(f"of {size} bytes ends at byte {offset + len(buffer)}")
    if buffer:
        yield offset, bytes(buffer)


class ChunkAssembly(Closing):
    """Bytes of a known size that arrive in any order; a subclass selects and verifies the chunks.

    Bytes beyond the first MiB are in a temporary file, which `close` deletes.
    """

    def __init__(self, total_bytes: int) -> None:
        self.held_bytes = 0
        """Number of bytes received."""
        self._total_bytes = total_bytes
        self._file = SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES)  # noqa: SIM115

    def _put(self, offset: int, data: bytes | memoryview) -> bool:
        """Store a new chunk. Returns whether all bytes are present now."""
        self._file.seek(offset)
        self._file.write(data)
        self.held_bytes += len(data)
        return self.held_bytes >= self._total_bytes

    def read(self) -> bytes:
        """Return all bytes, in memory. The data must be complete."""
        return b"".join(self.pieces())

    def pieces(self) -> Iterator[bytes]:
        """Yield all bytes in pieces of one MiB, in order. The data must be complete."""
        at = 0
        while at < self._total_bytes:
            self._file.seek(at)
            piece = self._file.read(min(_READ_BYTES, self._total_bytes - at))
            yield piece
            at += len(piece)

    def close(self) -> None:
        """Release the bytes. Further calls have no effect."""
        self._file.close()
