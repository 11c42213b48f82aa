"""Whole shards: their files, their sizes, and where each block lies."""

from __future__ import annotations

import os
import sqlite3
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from culm_connectors.dag.store.outcomes import BlockPlace
from culm_connectors.dag.store.tables import SHARDS
from culm_connectors.dag.store.verification import VerifiedShard
from culm_models.dag.blocks.cid import Cid, cid_from_bytes

_OPEN_FILES: Final = 64
_PAGE: Final = 1_000


class ShardTable:
    """The shards of one folder, inside the folder's transaction."""

    def __init__(self, database: sqlite3.Connection, folder: Path) -> None:
        self._database = database
        self._folder = folder / SHARDS
        self._files: OrderedDict[str, int] = OrderedDict()
        self.to_delete: list[Path] = []
        """Files that go once what says so is committed."""

    def close(self) -> None:
        """Let go of open files."""
        while self._files:
            os.close(self._files.popitem()[1])

    def file_path(self, cid: Cid) -> Path:
        """Where the file of a shard is, or would be."""
        return self._folder / f"{cid.text}.car"

    def size(self, cid: Cid) -> int | None:
        """The size of a shard that is here."""
        row = self._database.execute("SELECT size FROM shards WHERE cid = ?", (cid.raw,)).fetchone()
        return None if row is None else int(row[0])

    def all(self) -> list[Cid]:
        """Every shard that is here."""
        return [cid_from_bytes(raw) for (raw,) in self._database.execute("SELECT cid FROM shards")]

    def belongs(self, space: bytes, cid: Cid) -> bool:
        """Whether a shard came in a space, or is named in it."""
        query = (
            "SELECT 1 FROM shard_places WHERE space = ?1 AND shard = ?2 UNION ALL "
            "SELECT 1 FROM names s JOIN places p ON p.node = s.node AND p.space = ?1 "
            "WHERE s.shard = ?2 LIMIT 1"
        )
        return self._database.execute(query, (space, cid.raw)).fetchone() is not None

    def of_space(self, space: bytes) -> Iterator[tuple[Cid, int]]:
        """The shards of a space, ascending by bytes; page by page, so that others may write meanwhile."""
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

    def keep(self, space: bytes | None, verified: VerifiedShard, source: Path) -> bool:
        """Make a verified file a shard; False where it was here, and the file goes."""
        if space is not None:
            self.place(space, verified.cid)
        if self.size(verified.cid) is not None:
            self.to_delete.append(source)
            return False
        source.replace(self.file_path(verified.cid))
        _sync_folder(self._folder)
        cursor = self._database.execute(
            "INSERT INTO shards (cid, size) VALUES (?, ?)", (verified.cid.raw, verified.size)
        )
        row = cursor.lastrowid
        places = ((raw, row, offset, length) for raw, offset, length in verified.places)
        self._database.executemany("INSERT OR IGNORE INTO blocks VALUES (?, ?, ?, ?)", places)
        return True

    def place(self, space: bytes, cid: Cid) -> None:
        """A shard is of a space, too."""
        self._database.execute("INSERT OR IGNORE INTO shard_places VALUES (?, ?)", (space, cid.raw))

    def read(self, cid: Cid, offset: int, length: int) -> bytes:
        """Bytes of a file that is here; fewer at its end, none where it is not here."""
        file = self._files.pop(cid.text, None)
        if file is None:
            if self.size(cid) is None:
                return b""
            file = os.open(self.file_path(cid), os.O_RDONLY)
        self._files[cid.text] = file
        if len(self._files) > _OPEN_FILES:
            os.close(self._files.popitem(last=False)[1])
        return os.pread(file, length, offset)

    def block_place(self, cid: Cid) -> BlockPlace | None:
        """Where a block lies, in the shard that came first."""
        query = (
            "SELECT h.cid, b.offset, b.length FROM blocks b JOIN shards h USING (shard) "
            "WHERE b.cid = ? ORDER BY b.shard LIMIT 1"
        )
        row = self._database.execute(query, (cid.raw,)).fetchone()
        return None if row is None else BlockPlace(cid_from_bytes(row[0]), row[1], row[2])

    def block_belongs(self, space: bytes, cid: Cid) -> bool:
        """Whether a shard that holds a block is of a space."""
        query = "SELECT h.cid FROM blocks b JOIN shards h USING (shard) WHERE b.cid = ?"
        rows = self._database.execute(query, (cid.raw,)).fetchall()
        return any(self.belongs(space, cid_from_bytes(raw)) for (raw,) in rows)

    def drop(self, cid: Cid) -> bool:
        """Forget a shard as if it had never come; whether it was here."""
        row = self._database.execute("SELECT shard FROM shards WHERE cid = ?", (cid.raw,)).fetchone()
        if row is None:
            return False
        self._database.execute("DELETE FROM blocks WHERE shard = ?", row)
        self._database.execute("DELETE FROM shards WHERE shard = ?", row)
        self._database.execute("DELETE FROM shard_places WHERE shard = ?", (cid.raw,))
        if (file := self._files.pop(cid.text, None)) is not None:
            os.close(file)
        self.to_delete.append(self.file_path(cid))
        return True


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
