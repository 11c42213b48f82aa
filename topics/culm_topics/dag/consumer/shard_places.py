"""The locations of blocks in shards: the present contents of `dag.shard-index`, in a local SQLite file.

The file is filled again if it is damaged, of another format, or belongs to another cluster or creation of the
topic: all of it is in Kafka. It takes about 100 bytes per block.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from culm_models.dag.blocks.cid import Cid, cid_from_bytes
from culm_topics.dag.errors import ShardPlacesFailed
from culm_topics.dag.records import decode_shard_index, split_shard_index_key
from culm_topics.errors import RecordError
from culm_topics.kafka.origin import Origin
from culm_topics.readers.batch import PassedOver, TopicMessage

INDEX_TOPIC: Final = "dag.shard-index"
_FORMAT: Final = 1
_TABLES: Final = """
CREATE TABLE origin (encoded BLOB NOT NULL);
CREATE TABLE positions (partition INTEGER PRIMARY KEY, next INTEGER NOT NULL);
CREATE TABLE shards (
    number INTEGER PRIMARY KEY, cid BLOB NOT NULL UNIQUE, size INTEGER NOT NULL, written_ms INTEGER NOT NULL
);
CREATE TABLE blocks (
    cid BLOB NOT NULL, shard INTEGER NOT NULL, at INTEGER NOT NULL, length INTEGER NOT NULL,
    part INTEGER NOT NULL, PRIMARY KEY (cid, shard)
) WITHOUT ROWID;
CREATE INDEX blocks_of_part ON blocks (shard, part);
"""


class ShardPlace(NamedTuple):
    """An available shard: its size, and when the broker stored its index."""

    cid: Cid
    size: int
    written_ms: int


class HeldBlock(NamedTuple):
    """A block in an available shard."""

    shard: ShardPlace
    offset: int
    length: int


class ShardPlaces:
    """The index of one deployment. For one program at a time."""

    def __init__(self, path: Path | None, origin: Origin) -> None:
        """Open or create the file; without a path it is a temporary one."""
        self.passed_over = PassedOver(INDEX_TOPIC)
        """Malformed records."""
        try:
            self._database = self._open(path, origin)
        except (sqlite3.DatabaseError, RecordError):
            if path is None:
                raise
            path.unlink()
            self._database = self._open(path, origin)

    def _open(self, path: Path | None, origin: Origin) -> sqlite3.Connection:
        database = sqlite3.connect("" if path is None else path, check_same_thread=False)
        try:
            (format_number,) = database.execute("PRAGMA user_version").fetchone()
            if format_number != _FORMAT or self._origin_of(database) != origin:
                names = database.execute(
                    "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
                )
                for (name,) in names.fetchall():
                    database.execute(f"DROP TABLE {name}")
                database.executescript(_TABLES)
                database.execute("INSERT INTO origin VALUES (?)", (origin.encode(),))
                database.execute(f"PRAGMA user_version = {_FORMAT}")
                database.commit()
        except BaseException:
            database.close()
            raise
        return database

    @staticmethod
    def _origin_of(database: sqlite3.Connection) -> Origin:
        (encoded,) = database.execute("SELECT encoded FROM origin").fetchone()
        return Origin.decode(encoded)

    def positions(self) -> dict[int, int]:
        """Return the next offset of each partition of the topic that was read."""
        return dict(self._database.execute("SELECT partition, next FROM positions"))

    def take(self, messages: Iterable[TopicMessage], positions: dict[int, int]) -> None:
        """Apply records in order, with the topic's new positions; all or nothing.

        Raises `ShardPlacesFailed`, for example for a full disk.
        """
        try:
            with self._database:
                for message in messages:
                    try:
                        self._take(message)
                    except RecordError as error:
                        self.passed_over.add(message, error)
                self._database.executemany(
                    "INSERT OR REPLACE INTO positions VALUES (?, ?)", list(positions.items())
                )
        except sqlite3.Error as error:
            raise ShardPlacesFailed(f"the file with the places of blocks: {error}") from error

    def _take(self, message: TopicMessage) -> None:
        if not message.value:
            shard, part = split_shard_index_key(message.key)
            self._remove(shard, part)
            return
        shard, part, record = decode_shard_index(message.key, message.value)
        self._database.execute(
            "INSERT INTO shards (cid, size, written_ms) VALUES (?, ?, ?) "
            "ON CONFLICT (cid) DO UPDATE SET size = excluded.size, written_ms = excluded.written_ms",
            (shard.raw, record.size, message.timestamp_ms),
        )
        (number,) = self._database.execute("SELECT number FROM shards WHERE cid = ?", (shard.raw,)).fetchone()
        self._database.execute("DELETE FROM blocks WHERE shard = ? AND part = ?", (number, part))
        self._database.executemany(
            "INSERT OR IGNORE INTO blocks VALUES (?, ?, ?, ?, ?)",
            [(block.cid.raw, number, block.offset, block.length, part) for block in record.blocks],
        )

    def _remove(self, shard: Cid, part: int) -> None:
        row = self._database.execute("SELECT number FROM shards WHERE cid = ?", (shard.raw,)).fetchone()
        if row is None:
            return
        self._database.execute("DELETE FROM blocks WHERE shard = ? AND part = ?", (row[0], part))
        if part == 0:
            self._database.execute("DELETE FROM shards WHERE number = ?", row)
            self._database.execute("DELETE FROM blocks WHERE shard = ?", row)

    def shard(self, cid: Cid) -> ShardPlace | None:
        """Return a shard; None if it is not available."""
        row = self._database.execute(
            "SELECT size, written_ms FROM shards WHERE cid = ?", (cid.raw,)
        ).fetchone()
        return None if row is None else ShardPlace(cid, *row)

    def block(self, cid: Cid) -> HeldBlock | None:
        """Return one location of a block; None if no available shard contains it."""
        row = self._database.execute(
            "SELECT shards.cid, size, written_ms, at, length FROM blocks "
            "JOIN shards ON shards.number = blocks.shard WHERE blocks.cid = ? ORDER BY shard LIMIT 1",
            (cid.raw,),
        ).fetchone()
        if row is None:
            return None
        shard, size, written_ms, offset, length = row
        return HeldBlock(ShardPlace(cid_from_bytes(shard), size, written_ms), offset, length)

    def close(self) -> None:
        """Close the file."""
        self._database.close()
