"""What is larger than a record, in chunks: cut, and collected again in any order.

Neither needs the memory of the whole: cutting keeps one chunk, and what comes in goes to a file that is on
the disk once it is longer than a mebibyte.
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
    """(offset, bytes) of each chunk of what comes in parts of any length, in order.

    Raises what `refuse` makes of a reason, where the parts are not of `size` bytes together, behind the
    chunks that were whole.
    """
    held = bytearray()
    offset = 0
    for part in parts:
        for start in range(0, len(part), chunk_bytes):
            held += part[start : start + chunk_bytes]
            while len(held) >= chunk_bytes and offset + chunk_bytes <= size:
                yield offset, bytes(held[:chunk_bytes])
                del held[:chunk_bytes]
                offset += chunk_bytes
            if offset + len(held) > size:
                raise refuse(f"of {size} bytes has more of them")
    if offset + len(held) != size:
        raise refuse(f"of {size} bytes ends at byte {offset + len(held)}")
    if held:
        yield offset, bytes(held)


class ChunkAssembly(Closing):
    """Bytes of a known size that come in any order; a subclass says which chunks are taken, and verifies.

    What is beyond the first mebibyte lies in a temporary file, which goes with `close`.
    """

    def __init__(self, total_bytes: int) -> None:
        self.held_bytes = 0
        """How many of its bytes have come."""
        self._total_bytes = total_bytes
        self._file = SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES)  # noqa: SIM115

    def _put(self, offset: int, data: bytes | memoryview) -> bool:
        """Keep a chunk that was not there; whether all of them are."""
        self._file.seek(offset)
        self._file.write(data)
        self.held_bytes += len(data)
        return self.held_bytes >= self._total_bytes

    def read(self) -> bytes:
        """All of it in memory; it must be whole."""
        return b"".join(self.pieces())

    def pieces(self) -> Iterator[bytes]:
        """All of it in pieces of a mebibyte, in order; it must be whole."""
        at = 0
        while at < self._total_bytes:
            self._file.seek(at)
            piece = self._file.read(min(_READ_BYTES, self._total_bytes - at))
            yield piece
            at += len(piece)

    def close(self) -> None:
        """Let go of the bytes; twice is harmless."""
        self._file.close()
