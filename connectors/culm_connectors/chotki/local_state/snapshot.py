"""A snapshot of the local store at one epoch, from which a session makes its handshake and its diff.

Reference 9.2, rule 7. The snapshot does not change, however long the session takes to send it.
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
"""Length of a key without its letter, in bytes."""


_FIRST_CHUNK: Final = 16
_CHUNK_FIELDS: Final = 1_024
_CHUNK_BYTES: Final = 1 << 20


class BlockSizes:
    """Total size of the values of each block, in bytes, by the first key of the block. For any thread.

    A snapshot of an earlier epoch may get the size at a later one: sizes for cutting diffs need not be exact.
    """

    def __init__(self) -> None:
        self._sizes: dict[bytes, int] = {}
        self._measured: set[bytes] = set()

    def of(self, start: bytes, end: bytes) -> int | None:
        """Return the size of the block from `start` to before `end`, or None if it is not known."""
        return self._sizes.get(start) if _is_block(start, end) else None

    @contextmanager
    def measuring(self, start: bytes, end: bytes) -> Iterator[bool]:
        """Reserve the measuring of a block for the context. Yields False if another session measures it."""
        is_first = not (_is_block(start, end) and start in self._measured)
        if is_first:
            self._measured.add(start)
        try:
            yield is_first
        finally:
            if is_first:
                self._measured.discard(start)

    def keep(self, start: bytes, end: bytes, size: int) -> None:
        """Store a measured size, if it is of a whole block."""
        if not _is_block(start, end):
            return
        if len(self._sizes) >= _REMEMBERED:
            self._sizes.clear()
        self._sizes[start] = size

    def changed(self, keys: Iterable[bytes]) -> None:
        """Discard the sizes of the blocks of written fields."""
        for start in {_start_of(key) for key in keys}:
            self._sizes.pop(start, None)


def _is_block(start: bytes, end: bytes) -> bool:
    return len(start) == _START and start == _start_of(start) and end == _start_of(start, BLOCK_MASK + 1)


def _start_of(key: bytes, further: int = 0) -> bytes:
    """Return the first key of a key's block, or of the block whose progress is `further` higher."""
    progress = (int.from_bytes(key[9:_START], "big") & ~BLOCK_MASK) + further
    return key[:9] + progress.to_bytes(8, "big")


class EpochSnapshot:
    """A `StoreSnapshot` over one read transaction. Any thread may use it, one at a time.

    `epoch` is its number, 0 if the store only has the objects of a new replica; `vector` is the global
    vector; `packets` has, by partition, the offset up to which it contains `chotki.packets`.

    All methods except `release` raise `StoreDamaged`, and `SnapshotLost` once the snapshot was released or
    taken back (`LongRead`).
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
        """Return the value of a key, or None."""
        is_field = key[0] == OBJECT_KEY
        with self._read.use() as transaction:
            database = self._databases[layout.FIELDS if is_field else layout.VECTORS]
            stored: bytes | None = transaction.get(key, db=database)
            if stored is None or not is_field:
                return stored
            return _unpacked([(key, stored)])[0][1]

    def fields(self, start: bytes) -> Iterator[layout.Field]:
        """Yield fields from `start` on: key, value, seen vector.

        At most 1,024 fields, or one megabyte and one field, are in memory at a time.
        """
        for chunk in self._chunks(layout.FIELDS, start):
            yield from _unpacked(chunk)

    def sizes(self, start: bytes, end: bytes) -> Iterator[int]:
        """Yield the total bytes of values from `start` to before `end`, chunk by chunk; 0 lets others run.

        A block that was measured before is not read again.
        """
        block_sizes = self._block_sizes
        while (known := block_sizes.of(start, end)) is None:
            with block_sizes.measuring(start, end) as is_first:
                if is_first:
                    size = 0
                    for measured_size in self._measured(start, end):
                        size += measured_size
                        yield measured_size
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
        """Yield all vectors in the order of their keys; the global vector is the first."""
        for chunk in self._chunks(layout.VECTORS, b""):
            yield from chunk

    def release(self) -> None:
        """Release the snapshot. Repeated calls do nothing."""
        self._read.end()

    def _chunks(self, database: bytes, start: bytes) -> Iterator[list[tuple[bytes, bytes]]]:
        # Between chunks the transaction may be ended by another thread. The first chunks are small, because
        # blocks often are.
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
