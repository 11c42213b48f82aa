"""The heights on disk: a cache that saves a restarted consumer from reading the topic again.

The only authority on a group's position is the offset committed in Kafka. A snapshot states the heights at an
offset of a partition. It is written after Kafka has stored the commit, with its offsets in one SQLite
transaction. A snapshot that lags behind is useful (the rest is read again). One that is ahead of Kafka, of
another selection or damaged is dropped. One of another origin is an error: the topic was created again, which
Kafka alone does not show, since it deletes a deleted topic's committed offsets.
"""

import hashlib
import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path

from culm_topics.errors import RecordError, TopicsError
from culm_topics.kafka.origin import Origin

_FORMAT = "2"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS identity (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS positions (partition INTEGER PRIMARY KEY, position INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS heights (
    log_key BLOB PRIMARY KEY, seq_num INTEGER NOT NULL, partition INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS heights_by_partition ON heights (partition);
"""
_SIGN_BIT = 1 << 63


class Snapshot:
    """The snapshot of one consumer group on one topic, in a directory of the program's choice."""

    def __init__(self, directory: Path, *, group_id: str, topic: str, origin: Origin, selection: str) -> None:
        name = hashlib.blake2b(f"{topic}\0{group_id}".encode(), digest_size=12).hexdigest()
        self._path = directory / f"heights-{name}.sqlite"
        self._identity = {
            "format": _FORMAT,
            "origin": origin.encode().decode(),
            "selection": selection,
        }
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._database = self._open()
            known = dict(self._database.execute("SELECT name, value FROM identity"))
            if (kept := _kept_origin(known, topic, origin)) is not None:
                try:
                    kept.check(
                        origin,
                        what=str(self._path),
                        remedy=f"begin with a new group, or delete {self._path} to read everything again",
                    )
                except BaseException:
                    self._database.close()
                    raise
            if known != self._identity:
                self.wipe()
        except (sqlite3.DatabaseError, OSError):
            # Damaged, or another file: it is a cache, so start a new one.
            self._database = self._begin_again()

    def load(self, partition: int) -> tuple[int, list[tuple[bytes, int]]] | None:
        """Return (position, [(log key, height), ...]) of this partition; None if it is unknown."""
        try:
            row = self._database.execute(
                "SELECT position FROM positions WHERE partition = ?", (partition,)
            ).fetchone()
            if row is None:
                return None
            heights = self._database.execute(
                "SELECT log_key, seq_num FROM heights WHERE partition = ?", (partition,)
            )
            return row[0], [(key, seq_num + _SIGN_BIT) for key, seq_num in heights]
        except sqlite3.DatabaseError:
            self._database.close()
            self._database = self._begin_again()
            return None

    def save(self, positions: Mapping[int, int], changes: Iterable[tuple[bytes, int, int]]) -> None:
        """Write the positions and the changed (log key, height, partition) rows, all or nothing.

        Raises `TopicsError` if the disk does not take them.
        """
        try:
            with self._database:
                self._database.executemany(
                    "INSERT OR REPLACE INTO heights VALUES (?, ?, ?)",
                    # SQLite's integers are signed: shifted down so that every u64 fits.
                    ((key, seq_num - _SIGN_BIT, partition) for key, seq_num, partition in changes),
                )
                self._database.executemany(
                    "INSERT OR REPLACE INTO positions VALUES (?, ?)", positions.items()
                )
        except sqlite3.Error as error:
            raise TopicsError(f"the state directory {self._path.parent} cannot be used: {error}") from error

    def wipe(self) -> None:
        """Delete everything and start again under the present identity."""
        with self._database:
            for table in ("heights", "positions", "identity"):
                self._database.execute(f"DELETE FROM {table}")
            self._database.executemany("INSERT INTO identity VALUES (?, ?)", self._identity.items())

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def _open(self) -> sqlite3.Connection:
        # The consumer serialises its own use; asyncio programs call it from changing threads.
        database = sqlite3.connect(self._path, check_same_thread=False)
        try:
            database.execute("PRAGMA journal_mode=WAL")
            # The order of writes is kept; a power failure may lose the last commits, which only costs time.
            database.execute("PRAGMA synchronous=NORMAL")
            database.executescript(_SCHEMA)
        except sqlite3.DatabaseError:
            database.close()
            raise
        return database

    def _begin_again(self) -> sqlite3.Connection:
        try:
            for suffix in ("", "-wal", "-shm"):
                self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
            self._database = self._open()
            self.wipe()
        except (sqlite3.DatabaseError, OSError) as error:
            raise TopicsError(f"the state directory {self._path.parent} cannot be used: {error}") from error
        return self._database


def _kept_origin(known: Mapping[str, str], topic: str, origin: Origin) -> Origin | None:
    """Return the origin of the heights from an identity; None if it has none."""
    if "topic_id" in known:  # format 1
        return Origin(origin.cluster_id, {topic: known["topic_id"]})
    try:
        return Origin.decode(known["origin"].encode()) if "origin" in known else None
    except RecordError:
        return None
