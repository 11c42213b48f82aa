"""The merged state of all objects in lmdb, from which an edge answers diffs (reference 9.2, rules 6 and 7).

The store is at one epoch and moves to the next one in one transaction: fields, vectors of blocks, the global
vector and the covered offsets. A store that is far behind is *built* instead: records are written as they are
read, in transactions of bounded size, and there is no snapshot until the store is at an epoch again.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from culm_connectors.chotki.errors import StateUnreadable, StoreIncomplete
from culm_connectors.chotki.local_state import layout
from culm_connectors.chotki.local_state.snapshot import BlockSizes, EpochSnapshot
from culm_connectors.chotki.storage_limits import LARGE_FIELD_BYTES
from culm_connectors.local_store.errors import StoreDamaged, StoreForeign
from culm_connectors.local_store.folder_lock import FolderLock
from culm_connectors.local_store.lmdb_file import LmdbFile
from culm_connectors.local_store.opening import close_marked, condemn, open_or_drop
from culm_models.chotki.ids import GLOBAL_VECTOR_KEY, OBJECT_KEY
from culm_models.chotki.log0 import common_store
from culm_models.chotki.rdx import parse_vector
from culm_models.errors import CulmError
from culm_topics.chotki.records import (
    BlockVectorRecord,
    EpochRecord,
    FieldRecord,
    is_epoch_key,
    is_field_key,
    is_vector_key,
)
from culm_topics.kafka.origin import Origin

_MAX_SNAPSHOTS: Final = 4_096

Write = tuple[bytes, bytes, bytes]
"""A write: database, key, value."""


class _Epoch(NamedTuple):
    """An epoch: its mark as stored (None before the first epoch), its number, vector and covered offsets."""

    mark: bytes | None
    number: int
    vector: Mapping[int, int]
    packets: Mapping[int, int]


class _Reached(NamedTuple):
    """The state that the store has reached."""

    at: _Epoch
    is_incomplete: bool
    offsets: Mapping[int, int]
    marks: Mapping[int, EpochRecord]
    large_fields: Mapping[bytes, int]


class ChotkiStore:
    """The store of one folder. One thread writes (`apply`, `build`, `sync`), any thread may read.

    Methods that write raise `StoreFull`, `StoreDamaged`, `StoreUnusable`.
    """

    def __init__(
        self,
        folder: Path,
        origin: Origin,
        *,
        map_size_bytes: int,
        max_size_bytes: int,
        check: bool,
        lock: FolderLock,
    ) -> None:
        """Open the store as it is, for `open`.

        Raises `StoreDamaged`, `StoreForeign` and the errors of `open`.
        """
        self._file = LmdbFile(
            folder,
            layout.DATABASES,
            map_size_bytes=map_size_bytes,
            max_size_bytes=max_size_bytes,
            full_hint="allow the store of Chotki more",
            check=check,
            max_readers=_MAX_SNAPSHOTS,
            lock=lock,
        )
        self._databases = self._file.databases
        self._block_sizes = BlockSizes()
        try:
            self._begin()
            self._reached = self._read_reached()
            self._check_origin(origin)
        except BaseException:
            self._file.close()
            raise

    @classmethod
    def open(cls, folder: Path, origin: Origin, *, map_size_bytes: int, max_size_bytes: int) -> ChotkiStore:
        """Open the store of a folder if it can be trusted, else a new one in its place.

        Raises `StoreBusy` if another process has it open, `StoreFull` if the disk is full, `StoreUnusable`.
        """

        def open_store(lock: FolderLock, doubt: bool) -> ChotkiStore:
            return cls(
                folder,
                origin,
                map_size_bytes=map_size_bytes,
                max_size_bytes=max_size_bytes,
                check=doubt,
                lock=lock,
            )

        what = "the local store of Chotki is dropped and will be rebuilt from chotki.state"
        return open_or_drop(folder, open_store, what=what)

    @property
    def folder(self) -> Path:
        """Folder of the store."""
        return self._file.folder

    @property
    def damage(self) -> StoreDamaged | None:
        """The latest damage that a reader or writer has found, or None."""
        return self._file.damage

    @property
    def epoch(self) -> int:
        """Number of the current epoch, or of the last one before building; 0 before the first."""
        return self._reached.at.number

    @property
    def vector(self) -> Mapping[int, int]:
        """Global vector of the epoch."""
        return self._reached.at.vector

    @property
    def packets(self) -> Mapping[int, int]:
        """Offsets up to which the epoch contains `chotki.packets`, by partition."""
        return self._reached.at.packets

    @property
    def is_incomplete(self) -> bool:
        """Whether the store is being built, so that there is no snapshot."""
        return self._reached.is_incomplete

    @property
    def state_offsets(self) -> Mapping[int, int]:
        """Offsets of `chotki.state` at which reading continues, by partition."""
        return self._reached.offsets

    @property
    def marks(self) -> Mapping[int, EpochRecord]:
        """Marks directly before the offsets of `chotki.state`, for partitions with a mark there."""
        return self._reached.marks

    @property
    def large_fields(self) -> Mapping[bytes, int]:
        """Sizes of all fields larger than `LARGE_FIELD_BYTES`, by key."""
        return self._reached.large_fields

    def get(self, key: bytes) -> bytes | None:
        """Return the current value of a key or None, also while the store is incomplete."""
        is_field = key[0] == OBJECT_KEY
        with self._file.read() as transaction:
            stored: bytes | None = transaction.get(
                key, db=self._databases[layout.FIELDS if is_field else layout.VECTORS]
            )
        return stored if stored is None or not is_field else layout.unpack_field(stored)[0]

    def snapshot(self) -> EpochSnapshot:
        """Return a snapshot of the store, which the caller must release soon. Raises `StoreIncomplete`."""
        read = self._file.read_long()
        try:
            with read.use() as transaction:
                meta = self._databases[layout.META]
                if transaction.get(layout.INCOMPLETE_KEY, db=meta) is not None:
                    raise StoreIncomplete(
                        "the local store of Chotki is being built", hint="wait until chotki.state is read"
                    )
                mark = transaction.get(layout.EPOCH_KEY, db=meta)
                vector = transaction.get(GLOBAL_VECTOR_KEY, db=self._databases[layout.VECTORS])
            at = self._reached.at
            # The writing thread may have reached another epoch meanwhile.
            at = at if at.mark == mark else self._epoch(mark, vector)
            return EpochSnapshot(
                read,
                self._databases,
                self._block_sizes,
                epoch=at.number,
                vector=at.vector,
                packets=at.packets,
            )
        except BaseException:
            read.end()
            raise

    def apply(
        self, records: Iterable[tuple[bytes, bytes]], mark: EpochRecord, offsets: Mapping[int, int]
    ) -> None:
        """Move to the epoch of a mark in one transaction.

        `records` are keys and values of `chotki.state`. The last record of a key counts; marks are skipped.
        `offsets` are the offsets after the marks, at which reading continues. Raises `StateUnreadable` before
        anything is written.
        """
        writes = _writes(records)
        writes.append((layout.VECTORS, GLOBAL_VECTOR_KEY, mark.vector))
        encoded = mark.encode()
        writes.append((layout.META, layout.EPOCH_KEY, encoded))
        for partition, offset in offsets.items():
            writes.append((layout.META, layout.offset_key(partition), layout.U64.pack(offset)))
            writes.append((layout.META, layout.mark_key(partition), encoded))
        self._write(writes, [layout.INCOMPLETE_KEY, *self._list_large(writes)])
        self._reached = self._read_reached()

    def build(
        self,
        records: Iterable[tuple[bytes, bytes]],
        offsets: Mapping[int, int],
        marks: Mapping[int, EpochRecord | None],
    ) -> None:
        """Write records of an incomplete epoch. There are no snapshots from now on until `apply`.

        `marks`: by partition, the mark that is the last record read, or None if another record is.
        Raises `StateUnreadable` before anything is written.
        """
        writes = _writes(records)
        writes.append((layout.META, layout.INCOMPLETE_KEY, b""))
        for partition, offset in offsets.items():
            writes.append((layout.META, layout.offset_key(partition), layout.U64.pack(offset)))
        gone = self._list_large(writes)
        for partition, mark in marks.items():
            if mark is None:
                gone.append(layout.mark_key(partition))
            else:
                writes.append((layout.META, layout.mark_key(partition), mark.encode()))
        self._write(writes, gone)
        self._reached = self._read_reached()

    def counts(self) -> tuple[int, int]:
        """Return the number of fields and the number of vectors."""
        return self._file.count(layout.FIELDS), self._file.count(layout.VECTORS)

    def size_bytes(self) -> int:
        """Return the size of the file in bytes."""
        return self._file.size_bytes()

    def sync(self) -> None:
        """Flush to disk. Blocks until the disk is done."""
        self._file.sync()

    def condemn(self) -> None:
        """Mark the store so that the next opening drops it."""
        condemn(self.folder)

    def close(self) -> None:
        """Flush and close the store, and mark it as closed with a digest of its file. Snapshots end."""
        close_marked(self._file)

    def _list_large(self, writes: list[Write]) -> list[bytes]:
        """Add the sizes of large fields to `writes`. Returns the keys of sizes of fields that shrank."""
        gone = []
        for database, key, value in tuple(writes):
            if database == layout.FIELDS and len(value) > LARGE_FIELD_BYTES:
                writes.append((layout.META, layout.LARGE_PREFIX + key, layout.U64.pack(len(value))))
            elif key in self._reached.large_fields:
                gone.append(layout.LARGE_PREFIX + key)
        return gone

    def _write(self, writes: list[Write], gone: Iterable[bytes]) -> None:
        # In the order of keys, each page is written once.
        writes.sort(key=lambda write: write[:2])
        databases, meta = self._databases, self._databases[layout.META]

        def work(transaction: Any) -> None:
            for name, group in itertools.groupby(writes, key=lambda write: write[0]):
                with transaction.cursor(db=databases[name]) as cursor:
                    cursor.putmulti([(key, value) for _, key, value in group])
            for key in gone:
                transaction.delete(key, db=meta)

        self._file.write(work)
        self._block_sizes.changed(key for name, key, _ in writes if name == layout.FIELDS)

    def _begin(self) -> None:
        """Fill an empty file with a new replica's store.

        Raises `StoreDamaged` if its format is another one.
        """
        with self._file.read() as transaction:
            stored_format = transaction.get(layout.FORMAT_KEY, db=self._databases[layout.META])
        written = layout.U32.pack(layout.FORMAT)
        if stored_format is None and self.counts() == (0, 0):
            writes = [(layout.META, layout.FORMAT_KEY, written)]
            for key, value in common_store().items():
                if key[0] == OBJECT_KEY:
                    writes.append((layout.FIELDS, key, layout.pack_field(value, None)))
                else:
                    writes.append((layout.VECTORS, key, value))
            self._write(writes, ())
        elif stored_format != written:
            raise StoreDamaged(f"{self.folder} has format {stored_format!r}, this version reads {written!r}")

    def _check_origin(self, origin: Origin) -> None:
        """Set the origin of a new store. Raises `StoreForeign` if it was filled from another Kafka."""
        with self._file.read() as transaction:
            kept = transaction.get(layout.ORIGIN_KEY, db=self._databases[layout.META])
        if kept is None and not self.state_offsets:
            self._write([(layout.META, layout.ORIGIN_KEY, origin.encode())], ())
        elif kept != origin.encode():
            filled_from = kept.decode(errors="replace") if kept else "nowhere known"
            raise StoreForeign(
                f"{self.folder} was filled from {filled_from}, Kafka is now {origin.encode().decode()}"
            )

    def _read_reached(self) -> _Reached:
        with self._file.read() as transaction:
            with transaction.cursor(db=self._databases[layout.META]) as cursor:
                meta = dict(cursor)
            vector = transaction.get(GLOBAL_VECTOR_KEY, db=self._databases[layout.VECTORS])
        at = self._epoch(meta.get(layout.EPOCH_KEY), vector)
        try:
            offsets = {
                _partition(key, layout.OFFSET_PREFIX): int(layout.U64.unpack(value)[0])
                for key, value in meta.items()
                if key.startswith(layout.OFFSET_PREFIX)
            }
            marks = {
                _partition(key, layout.MARK_PREFIX): EpochRecord.decode(value)
                for key, value in meta.items()
                if key.startswith(layout.MARK_PREFIX)
            }
            large = {
                key[len(layout.LARGE_PREFIX) :]: int(layout.U64.unpack(value)[0])
                for key, value in meta.items()
                if key.startswith(layout.LARGE_PREFIX)
            }
        except (struct.error, CulmError) as error:
            raise StoreDamaged(f"{self.folder}: malformed record: {error}") from error
        return _Reached(at, layout.INCOMPLETE_KEY in meta, offsets, marks, large)

    def _epoch(self, mark: bytes | None, vector: bytes | None) -> _Epoch:
        try:
            entries = parse_vector(vector or b"")
            if mark is None:
                return _Epoch(None, 0, entries, {})
            record = EpochRecord.decode(mark)
        except CulmError as error:
            raise StoreDamaged(f"{self.folder}: malformed epoch: {error}") from error
        return _Epoch(mark, record.epoch, entries, dict(record.packets))


def _partition(key: bytes, prefix: bytes) -> int:
    return int(layout.U32.unpack(key[len(prefix) :])[0])


def _writes(records: Iterable[tuple[bytes, bytes]]) -> list[Write]:
    writes: list[Write] = []
    for key, value in dict(records).items():
        try:
            if is_field_key(key):
                field = FieldRecord.decode(value)
                writes.append((layout.FIELDS, key, layout.pack_field(field.value, field.seen)))
            elif is_vector_key(key):
                writes.append((layout.VECTORS, key, BlockVectorRecord.decode(value).vector))
            elif not is_epoch_key(key):
                raise StateUnreadable(f"chotki.state: {key.hex()} is the key of nothing that is known")
        except CulmError as error:
            if isinstance(error, StateUnreadable):
                raise
            raise StateUnreadable(
                f"chotki.state: the record of {key.hex()}: {error}", hint="is the job of a newer version?"
            ) from error
    return writes
