"""How large blocks are: diffs measure them before they send any, and none is read again for each peer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from culm_models.chotki.ids import BLOCK_MASK

_REMEMBERED: Final = 65_536
_START: Final = 17
"""The bytes of a key without its letter."""


class BlockSizes:
    """The bytes of all values of blocks, by the beginning of their keys; for any thread.

    A snapshot of an earlier epoch may get the size of a later one: where a diff is cut need not be exact.
    """

    def __init__(self) -> None:
        self._sizes: dict[bytes, int] = {}
        self._measured: set[bytes] = set()

    def of(self, start: bytes, end: bytes) -> int | None:
        """The size of what lies from one key up to another; None where it is not known."""
        return self._sizes.get(start) if _is_block(start, end) else None

    @contextmanager
    def measuring(self, start: bytes, end: bytes) -> Iterator[bool]:
        """Measure a block while the context lasts; False if somebody else does so at this time."""
        is_first = not (_is_block(start, end) and start in self._measured)
        if is_first:
            self._measured.add(start)
        try:
            yield is_first
        finally:
            if is_first:
                self._measured.discard(start)

    def keep(self, start: bytes, end: bytes, size: int) -> None:
        """This was measured; the sizes of whole blocks are kept."""
        if not _is_block(start, end):
            return
        if len(self._sizes) >= _REMEMBERED:
            self._sizes.clear()
        self._sizes[start] = size

    def changed(self, keys: Iterable[bytes]) -> None:
        """Fields of these keys were written."""
        for start in {_start_of(key) for key in keys}:
            self._sizes.pop(start, None)


def _is_block(start: bytes, end: bytes) -> bool:
    return len(start) == _START and start == _start_of(start) and end == _start_of(start, BLOCK_MASK + 1)


def _start_of(key: bytes, further: int = 0) -> bytes:
    """Where the block of a key begins, or the one that is so much further."""
    progress = (int.from_bytes(key[9:_START], "big") & ~BLOCK_MASK) + further
    return key[:9] + progress.to_bytes(8, "big")
