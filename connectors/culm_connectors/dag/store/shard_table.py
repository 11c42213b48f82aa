"""Complete shards: their files, their sizes, and the place of each block.

A shard is a row and a file. The file is on disk before the row is inserted, and is deleted after the row is.
If a kill leaves one without the other, it is dropped when the folder is opened. A process that has not
verified a file itself first reads all of it and checks its hash. A damaged shard is treated as one that never
came.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from culm_connectors.dag.store.tables import SHARDS
from culm_models.dag.blocks.cid import CAR, Cid, cid_from_bytes
from culm_models.dag.blocks.multihash import block_hasher
from culm_models.dag.car.reader import CarStream
from culm_models.dag.errors import BlockTooLarge, HashMismatch
from culm_models.dag.validation_rules import ValidationRules
from culm_models.dag.walk.shard_blocks import block_places, is_opaque

_OPEN_FILES: Final = 64
_PAGE: Final = 1_000
_PIECE_BYTES: Final = 1_048_576


@dataclass(frozen=True, slots=True)
class VerifiedShard:
    """A shard whose file was read to its end and verified."""

    cid: Cid
    size: int
    places: tuple[tuple[bytes, int, int], ...]
    """CID, offset and length of each block, the first one of repeats; empty if the shard is opaque."""


@contextmanager
def file_of(folder: Path, data: bytes | memoryview) -> Iterator[Path]:
    """Write bytes to a temporary file of a folder, on disk; it is deleted unless it is renamed meanwhile."""
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".adding-", delete=False) as file:
        path = Path(file.name)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def verify_shard(path: Path, cid: Cid, settings: ValidationRules) -> VerifiedShard:
    """Read a shard's file and verify it. Raises the `DagError` with which it is refused, or `OSError`."""
    size = path.stat().st_size
    if size > settings.bounds.car:
        raise BlockTooLarge(f"a shard over {settings.bounds.car} bytes")
    hasher = block_hasher(cid, settings.hashes)
    stream = CarStream(hashes=settings.hashes, bounds=settings.bounds) if cid.codec == CAR else None
    blocks: dict[bytes, tuple[int, int]] = {}
    for piece in _pieces(path):
        hasher.update(piece)
        for section in stream.feed(piece) if stream is not None else ():
            blocks.setdefault(section.cid.raw, (section.offset, len(section.data)))
    if hasher.digest() != cid.digest:
        raise HashMismatch(f"the bytes are not those of {cid.text[:100]}")
    if stream is not None:
        stream.finish()
    elif not is_opaque(cid, settings.hashes):
        places = block_places(cid, path.read_bytes(), hashes=settings.hashes, bounds=settings.bounds)
        for block, offset, length in places:
            blocks.setdefault(block.raw, (offset, length))
    return VerifiedShard(cid, size, tuple((raw, *position) for raw, position in blocks.items()))


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
        while piece := file.read(_PIECE_BYTES):
            yield piece


class ShardTable:
    """The shards of one folder, inside the folder's transaction."""

    def __init__(
        self,
        database: sqlite3.Connection,
        folder: Path,
        hashes: Collection[int],
        on_damaged: Callable[[Cid], None],
    ) -> None:
        self._database = database
        self._folder = folder / SHARDS
        self._hashes = hashes
        self._on_damaged = on_damaged
        self._files: OrderedDict[str, int] = OrderedDict()
        self._sound: set[bytes] = set()
        self.to_delete: list[Cid] = []
        """Shards whose files are deleted once the transaction that dropped them is committed."""
        self._moved: list[tuple[Cid, Path]] = []

    def close(self) -> None:
        """Close open files."""
        while self._files:
            os.close(self._files.popitem()[1])

    def file_path(self, cid: Cid) -> Path:
        """Return the path of a shard's file, whether it exists or not."""
        return self._folder / f"{cid.text}.car"

    def size(self, cid: Cid) -> int | None:
        """Return the size of a shard in bytes, or None if it is not here."""
        row = self._database.execute("SELECT size FROM shards WHERE cid = ?", (cid.raw,)).fetchone()
        return None if row is None else int(row[0])

    def all(self) -> list[Cid]:
        """Return every shard that is here."""
        return [cid_from_bytes(raw) for (raw,) in self._database.execute("SELECT cid FROM shards")]

    def belongs(self, space: bytes, cid: Cid) -> bool:
        """Return whether a shard came in a space, or is named in it."""
        query = (
            "SELECT 1 FROM shard_places WHERE space = ?1 AND shard = ?2 UNION ALL "
            "SELECT 1 FROM names s JOIN places p ON p.node = s.node AND p.space = ?1 "
            "WHERE s.shard = ?2 LIMIT 1"
        )
        return self._database.execute(query, (space, cid.raw)).fetchone() is not None

    def of_space(self, space: bytes) -> Iterator[tuple[Cid, int]]:
        """Return a space's shards, ascending by bytes; in pages, so that others may write meanwhile."""
        after = b""
        query = (
            "SELECT h.cid, h.size FROM shards h WHERE h.cid > ?2 AND h.cid IN "
            "(SELECT shard FROM shard_places WHERE space = ?1 UNION "
            "SELECT s.shard FROM names s JOIN places p ON p.node = s.node AND p.space = ?1) "
            "ORDER BY h.cid LIMIT ?3"
        )
        while rows := self._database.execute(query, (space, after, _PAGE)).fetchall():
            for raw, size in rows:
                yield cid_from_bytes(raw), size
            after = rows[-1][0]

    def keep(self, verified: VerifiedShard, source: Path) -> bool:
        """Make a verified file a shard; False if the shard was here, and the file is left."""
        if self.size(verified.cid) is not None:
            return False
        _sync(source, os.O_RDONLY)
        source.replace(self.file_path(verified.cid))
        self._moved.append((verified.cid, source))
        _sync(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        cursor = self._database.execute(
            "INSERT INTO shards (cid, size) VALUES (?, ?)", (verified.cid.raw, verified.size)
        )
        row = cursor.lastrowid
        places = ((raw, row, offset, length) for raw, offset, length in verified.places)
        self._database.executemany("INSERT OR IGNORE INTO blocks VALUES (?, ?, ?, ?)", places)
        self._sound.add(verified.cid.raw)
        return True

    def place(self, space: bytes, cid: Cid) -> bool:
        """Record that a shard came in a space; returns whether that is new."""
        query = "INSERT OR IGNORE INTO shard_places VALUES (?, ?)"
        return bool(self._database.execute(query, (space, cid.raw)).rowcount)

    def read(self, cid: Cid, offset: int, length: int) -> bytes:
        """Return bytes of a shard's file; fewer at its end, none if it is not here or is damaged."""
        file = self._files.pop(cid.text, None)
        if file is None:
            if not self.is_sound(cid):
                return b""
            file = os.open(self.file_path(cid), os.O_RDONLY)
        self._files[cid.text] = file
        if len(self._files) > _OPEN_FILES:
            os.close(self._files.popitem(last=False)[1])
        return os.pread(file, length, offset)

    def is_sound(self, cid: Cid) -> bool:
        """Return whether a shard is here and its file matches; a damaged one is passed to `on_damaged`."""
        size = self.size(cid)
        if size is None:
            return False
        if cid.raw not in self._sound:
            if not self._has_its_bytes(cid, size):
                self._on_damaged(cid)
                return False
            self._sound.add(cid.raw)
        return True

    def _has_its_bytes(self, cid: Cid, size: int) -> bool:
        path, hasher = self.file_path(cid), block_hasher(cid, self._hashes)
        try:
            if path.stat().st_size != size:
                return False
            for piece in _pieces(path):
                hasher.update(piece)
        except FileNotFoundError:
            return False
        return hasher.digest() == cid.digest

    def block_place(self, cid: Cid) -> tuple[Cid, int, int] | None:
        """Return the place of a block, in the shard that came first: shard, offset and length in bytes."""
        query = (
            "SELECT h.cid, b.offset, b.length FROM blocks b JOIN shards h USING (shard) "
            "WHERE b.cid = ? ORDER BY b.shard LIMIT 1"
        )
        row = self._database.execute(query, (cid.raw,)).fetchone()
        return None if row is None else (cid_from_bytes(row[0]), row[1], row[2])

    def block_belongs(self, space: bytes, cid: Cid) -> bool:
        """Return whether a shard that holds a block belongs to a space."""
        query = "SELECT h.cid FROM blocks b JOIN shards h USING (shard) WHERE b.cid = ?"
        rows = self._database.execute(query, (cid.raw,)).fetchall()
        return any(self.belongs(space, cid_from_bytes(raw)) for (raw,) in rows)

    def drop(self, cid: Cid) -> bool:
        """Drop a shard as if it never came; returns whether it was here."""
        row = self._database.execute("SELECT shard FROM shards WHERE cid = ?", (cid.raw,)).fetchone()
        if row is None:
            return False
        self._database.execute("DELETE FROM blocks WHERE shard = ?", row)
        self._database.execute("DELETE FROM shards WHERE shard = ?", row)
        self._database.execute("DELETE FROM shard_places WHERE shard = ?", (cid.raw,))
        if (file := self._files.pop(cid.text, None)) is not None:
            os.close(file)
        self._sound.discard(cid.raw)
        self.to_delete.append(cid)
        return True

    def committed(self) -> None:
        """Delete the files of dropped shards: in a transaction, so that no such shard is added meanwhile."""
        self._moved = []
        for cid in self.to_delete:
            if self.size(cid) is None:
                self.file_path(cid).unlink(missing_ok=True)
        self.to_delete = []

    def rolled_back(self) -> None:
        """Move the files of shards that were not kept back to where they were."""
        for cid, source in reversed(self._moved):
            if self.size(cid) is None and not source.exists():
                self.file_path(cid).replace(source)
        self._moved, self.to_delete = [], []
        self._sound.clear()

    def drop_torn(self) -> list[Cid]:
        """Drop shards without a file, which are returned, and delete files without a shard."""
        files = {path.name: path for path in self._folder.iterdir()}
        torn = [cid for cid in self.all() if files.pop(self.file_path(cid).name, None) is None]
        for cid in torn:
            self.drop(cid)
        for path in files.values():
            path.unlink(missing_ok=True)
        return torn


def _sync(path: Path, flags: int) -> None:
    """Flush a file, or the names in a folder, to disk."""
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
