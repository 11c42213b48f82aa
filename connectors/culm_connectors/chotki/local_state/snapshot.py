"""The local store as it is at one epoch: what a session's handshake announces and its diff is made from.

Reference 9.2, rule 7. Everything is of one moment, however long the session takes to send it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from culm_connectors.chotki.local_state import layout
from culm_connectors.local_store.errors import StoreDamaged
from culm_connectors.local_store.long_read import LongRead
from culm_models.chotki.ids import BLOCK_MASK, OBJECT_KEY

_REMEMBERED: Final = 65_536
_START: Final = 17
"""The bytes of a key without its letter."""


_FIRST_CHUNK: Final = 16
_CHUNK_FIELDS: Final = 1_024
_CHUNK_BYTES: Final = 1 << 20


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


class EpochSnapshot:
    """A `StoreSnapshot` over one read transaction; any thread may use it, one at a time.

    `epoch` is its number, 0 where only a fresh replica's objects are there; `vector` the global vector;
    `packets`: by partition up to which offset of `chotki.packets` everything is in it.

    Everything but `release` raises SnapshotLost once it was released, or taken back (see `LongRead`), and
    StoreDamaged.
    """

    __slots__ = ("_block_sizes", "_databases", "_read", "epoch", "packets", "vector")

    def __init__(
        self,
        read: LongRead,
        databases: Mapping[bytes, object],
        block_sizes: BlockSizes,
        *,
        epoch: int,
        vector: Mapping[int, int],
        packets: Mapping[int, int],
    ) -> None:
        self._read = read
        self._databases = databases
        self._block_sizes = block_sizes
        self.epoch = epoch
        self.vector = vector
        self.packets = packets

    def get(self, key: bytes) -> bytes | None:
        """The value of a key."""
        is_field = key[0] == OBJECT_KEY
        with self._read.use() as transaction:
            database = self._databases[layout.FIELDS if is_field else layout.VECTORS]
            found: bytes | None = transaction.get(key, db=database)
            if found is None or not is_field:
                return found
            return _unpacked([(key, found)])[0][1]

    def fields(self, start: bytes) -> Iterator[layout.Field]:
        """See `StoreSnapshot.fields`; memory holds some thousand fields, or a megabyte and one field."""
        for chunk in self._chunks(layout.FIELDS, start):
            yield from _unpacked(chunk)

    def sizes(self, start: bytes, end: bytes) -> Iterator[int]:
        """See `StoreSnapshot.sizes`; a block that was measured before is not read again."""
        block_sizes = self._block_sizes
        while (known := block_sizes.of(start, end)) is None:
            with block_sizes.measuring(start, end) as is_first:
                if is_first:
                    size = 0
                    for some in self._measured(start, end):
                        size += some
                        yield some
                    block_sizes.keep(start, end, size)
                    return
            # Many sessions that begin together measure the same blocks at the same time.
            yield 0
        yield known

    def _measured(self, start: bytes, end: bytes) -> Iterator[int]:
        for chunk in self._chunks(layout.FIELDS, start):
            if chunk[-1][0] < end:
                yield sum(len(value) for _, value, _ in _unpacked(chunk))
                continue
            yield sum(len(value) for key, value, _ in _unpacked(chunk) if key < end)
            return

    def vectors(self) -> Iterator[tuple[bytes, bytes]]:
        """See `StoreSnapshot.vectors`."""
        for chunk in self._chunks(layout.VECTORS, b""):
            yield from chunk

    def release(self) -> None:
        """It is not needed any more; again does nothing."""
        self._read.end()

    def _chunks(self, database: bytes, start: bytes) -> Iterator[list[tuple[bytes, bytes]]]:
        # Between chunks the transaction is free for whoever wants to end it. Blocks are often small: the
        # first chunks are, too.
        size = _FIRST_CHUNK
        while True:
            with self._read.use() as transaction, transaction.cursor(db=self._databases[database]) as cursor:
                if not cursor.set_range(start):
                    return
                chunk: list[tuple[bytes, bytes]] = []
                chunk_bytes = 0
                for item in itertools.islice(cursor.iternext(), size):
                    chunk.append(item)
                    chunk_bytes += len(item[1])
                    if chunk_bytes >= _CHUNK_BYTES:
                        break
            yield chunk
            if len(chunk) < size and chunk_bytes < _CHUNK_BYTES:
                return
            start = chunk[-1][0] + b"\x00"
            size = min(size * 4, _CHUNK_FIELDS)


def _unpacked(items: list[tuple[bytes, bytes]]) -> list[layout.Field]:
    try:
        return layout.unpack_fields(items)
    except ValueError as error:
        raise StoreDamaged(f"a field from {items[0][0].hex()} on: {error}") from error
