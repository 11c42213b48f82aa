"""Incomplete shards: a file and a row each, by peer and shard, with quotas for the bytes received (R34).

A spool uses no capacity before its first chunk. If there is no capacity left, the address that uses most of
it loses its least recently used spool, unless the requesting address would then use more. For the quota of an
address, the same applies to its peers.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Final

from culm_connectors.dag.store.settings import DagFolderSettings
from culm_connectors.edge.fair_turns import caller_address
from culm_models.dag.blocks.cid import Cid
from culm_models.dag.errors import DagSpoolFull
from culm_models.dag.exchange.ranges import Range, all_chunks, chunk_bit, chunk_count, ranges_of
from culm_models.dag.exchange.store import NotReserved, Reserved
from culm_models.dag.wire.messages import CHUNK_SIZE, AckStatus

_OPEN_FILES: Final = 64
DEPLOYMENT_PEER: Final = bytes(32)
"""Spools of this peer count towards no quota: an edge reads data that the deployment holds into them."""


class Spools:
    """The spools of one folder, inside the folder's transaction."""

    def __init__(
        self,
        database: sqlite3.Connection,
        folder: Path,
        settings: DagFolderSettings,
        clock_s: Callable[[], float],
    ) -> None:
        self._database = database
        self._folder = folder
        self._settings = settings
        self._clock_s = clock_s
        self._files: OrderedDict[int, int] = OrderedDict()
        self._before = {row for (row,) in database.execute("SELECT spool FROM spools")}
        self.to_delete: list[Path] = []
        """Files that are deleted once the transaction that dropped their spools is committed."""

    def close(self) -> None:
        """Close open files."""
        while self._files:
            os.close(self._files.popitem()[1])

    def committed(self) -> None:
        """Delete the files in `to_delete`."""
        for path in self.to_delete:
            path.unlink(missing_ok=True)
        self.to_delete = []

    def path(self, row: int) -> Path:
        """Return the path of a spool's file."""
        return self._folder / f"{row}.part"

    def row(self, peer: bytes, shard: Cid) -> tuple[int, int, int, bytes] | None:
        """Return number, announced size, chunks (a bit each) and space of a spool, or None."""
        query = "SELECT spool, size, bits, space FROM spools WHERE peer = ? AND cid = ?"
        spool = self._database.execute(query, (peer, shard.raw)).fetchone()
        return None if spool is None else (spool[0], spool[1], int.from_bytes(spool[2], "little"), spool[3])

    def reserve(self, peer: bytes, space: bytes, shard: Cid, size: int) -> Reserved | NotReserved:
        """Reserve capacity for all of a shard."""
        spool = self.row(peer, shard)
        if spool is not None and spool[1] == size:
            return Reserved(spool[2])
        if spool is not None:
            self.drop(spool[0])
        address = caller_address()
        if peer != DEPLOYMENT_PEER and not self._make_capacity(peer, address, size, spools=1):
            return NotReserved(AckStatus.LATER, DagSpoolFull.code)
        # No process ever reuses a number: a file may be deleted after its row is.
        self._database.execute(
            "INSERT INTO spools (spool, peer, cid, size, space, bits, touched_at, address) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (secrets.randbits(62), peer, shard.raw, size, space, b"", int(self._clock_s()), address),
        )
        return Reserved(0)

    def forget(self, peer: bytes, shard: Cid) -> None:
        """Drop a spool."""
        if (spool := self.row(peer, shard)) is not None:
            self.drop(spool[0])

    def release(self, peer: bytes, shard: Cid) -> None:
        """Drop a spool for which nothing has come."""
        spool = self.row(peer, shard)
        if spool is not None and not spool[2]:
            self.drop(spool[0])

    def _make_capacity(self, peer: bytes, address: str, size: int, *, spools: int) -> bool:
        """Return whether a peer may send this much more, after dropping other spools if that is needed."""
        if self._in_the_way(peer, address, size, spools) is None:
            return True
        self.drop_expired()
        while (rows := self._in_the_way(peer, address, size, spools)) is not None:
            if not rows:
                return False
            for row in rows:
                self.drop(row)
        return True

    def _in_the_way(self, peer: bytes, address: str, size: int, spools: int) -> list[int] | None:
        """Return the spool to drop for a request; empty if none may go, None if there is capacity."""
        query = (
            "SELECT count(*), ifnull(sum(received), 0), ifnull(sum(peer = ?1), 0), "
            "ifnull(sum(received * (peer = ?1)), 0), ifnull(sum(received * (address = ?2)), 0) "
            "FROM spools WHERE peer != ?3"
        )
        parameters = (peer, address, DEPLOYMENT_PEER)
        count, in_all, count_of_peer, of_peer, of_address = self._database.execute(
            query, parameters
        ).fetchone()
        settings = self._settings
        if of_peer + size > settings.max_spool_bytes_per_peer:
            return []
        if count_of_peer + spools > settings.peer_spools:
            return self._first("received = 0 AND peer = ?", peer)
        if count + spools > settings.spools:
            return self._first("received = 0 AND peer != ?", DEPLOYMENT_PEER)
        if of_address + size > settings.max_spool_bytes_per_address:
            return self._of_largest("peer", "address = ?", address, of_peer + size)
        if in_all + size > settings.max_spool_bytes:
            return self._of_largest("address", "peer != ?", DEPLOYMENT_PEER, of_address + size)
        return None

    def _of_largest(self, column: str, condition: str, value: bytes | str, least: int) -> list[int]:
        """Return the least recently used spool of the largest holder, if that has at least `least` bytes."""
        query = (
            f"SELECT {column}, sum(received) FROM spools WHERE {condition} "
            f"GROUP BY {column} ORDER BY 2 DESC, 1 LIMIT 1"
        )
        largest = self._database.execute(query, (value,)).fetchone()
        if largest is None or largest[1] < least:
            return []
        return self._first(f"received > 0 AND {condition} AND {column} = ?", value, largest[0])

    def _first(self, condition: str, *values: bytes | str) -> list[int]:
        query = f"SELECT spool FROM spools WHERE {condition} ORDER BY touched_at, spool LIMIT 1"
        return [row for (row,) in self._database.execute(query, values)]

    def write(self, peer: bytes, shard: Cid, offset: int, data: bytes) -> bool:
        """Keep one chunk, if there is a spool and capacity for it; returns whether it was kept."""
        spool = self.row(peer, shard)
        if spool is None:
            return False
        if peer != DEPLOYMENT_PEER and not self._make_capacity(peer, caller_address(), len(data), spools=0):
            return False
        row, size, bits, _ = spool
        file = self._file(row)
        view, at = memoryview(data), offset
        while view:
            written = os.pwrite(file, view, at)
            view, at = view[written:], at + written
        bits |= chunk_bit(offset)
        self._database.execute(
            "UPDATE spools SET bits = ?, received = ?, touched_at = ? WHERE spool = ?",
            (
                bits.to_bytes(-(-chunk_count(size) // 8), "little"),
                _bytes_of(bits, size),
                int(self._clock_s()),
                row,
            ),
        )
        return True

    def _file(self, row: int) -> int:
        file = self._files.pop(row, None)
        if file is None:
            file = os.open(self.path(row), os.O_RDWR | os.O_CREAT, 0o600)
        self._files[row] = file
        if len(self._files) > _OPEN_FILES:
            os.close(self._files.popitem(last=False)[1])
        return file

    def ranges(self, peer: bytes, shard: Cid) -> tuple[int, tuple[Range, ...]] | None:
        """Return announced size and ranges of a spool, or None."""
        spool = self.row(peer, shard)
        return None if spool is None else (spool[1], ranges_of(spool[2], spool[1]))

    def whole(self, peer: bytes, shard: Cid) -> Path | None:
        """Flush a spool with all chunks to disk and return its file; None if it is not complete."""
        spool = self.row(peer, shard)
        if spool is None or spool[2] != all_chunks(spool[1]):
            return None
        os.fsync(self._file(spool[0]))
        return self.path(spool[0])

    def drop(self, row: int) -> None:
        """Drop a spool."""
        self._database.execute("DELETE FROM spools WHERE spool = ?", (row,))
        if (file := self._files.pop(row, None)) is not None:
            os.close(file)
        self.to_delete.append(self.path(row))

    def drop_of_shard(self, shard: Cid) -> None:
        """Drop all spools of a shard that is complete."""
        query = "SELECT spool FROM spools WHERE cid = ?"
        for (row,) in self._database.execute(query, (shard.raw,)).fetchall():
            self.drop(row)

    def drop_under(self, peer: bytes, key: bytes) -> int:
        """Drop a peer's spools of a shard (the bytes of its CID), or of a space; returns how many."""
        query = "SELECT spool FROM spools WHERE peer = ?1 AND (cid = ?2 OR space = ?2)"
        rows = self._database.execute(query, (peer, key)).fetchall()
        for (row,) in rows:
            self.drop(row)
        return len(rows)

    def drop_expired(self) -> int:
        """Drop spools whose last byte came too long ago; returns how many."""
        before = int(self._clock_s()) - self._settings.spool_expires_s
        # Data of the deployment is read once, and may be completed after a longer absence.
        query = "SELECT spool FROM spools WHERE touched_at <= ? AND peer != ?"
        rows = self._database.execute(query, (before, DEPLOYMENT_PEER)).fetchall()
        for (row,) in rows:
            self.drop(row)
        return len(rows)

    def is_of_before(self, peer: bytes, shard: Cid) -> bool:
        """Return whether a spool was here when the folder was opened."""
        spool = self.row(peer, shard)
        return spool is not None and spool[0] in self._before

    def drop_torn(self) -> bool:
        """Drop spools whose file is shorter than their row requires, and files without a row.

        Returns whether one of the deployment's spools was dropped.
        """
        query = "SELECT spool, size, bits, peer FROM spools"
        known: set[str] = set()
        is_of_deployment = False
        for row, size, data, peer in self._database.execute(query).fetchall():
            bits = int.from_bytes(data, "little")
            end = min(bits.bit_length() * CHUNK_SIZE, size)
            path = self.path(row)
            if bits and (not path.exists() or path.stat().st_size < end):
                self.drop(row)
                is_of_deployment = is_of_deployment or peer == DEPLOYMENT_PEER
            else:
                known.add(path.name)
        self.to_delete += [path for path in self._folder.iterdir() if path.name not in known]
        return is_of_deployment


def _bytes_of(bits: int, size: int) -> int:
    """Return the size of these chunks of a shard, in bytes."""
    return sum(length for _, length in ranges_of(bits, size))


def count_received(database: sqlite3.Connection) -> None:
    """Compute the received bytes of spools, in a folder of a version that did not keep them."""
    rows = database.execute("SELECT spool, size, bits FROM spools").fetchall()
    database.executemany(
        "UPDATE spools SET received = ? WHERE spool = ?",
        [(_bytes_of(int.from_bytes(bits, "little"), size), row) for row, size, bits in rows],
    )
