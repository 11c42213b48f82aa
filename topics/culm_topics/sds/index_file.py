"""The index of `sds.messages` in a local SQLite file: a cache of the topic `sds.index`.

Rows and the offsets that they cover are written in one transaction, so the file always holds a past state of
the topic; a process that is killed leaves the previous one. Several processes may share a file: the first to
write wins, and records below the file's offset are skipped. A file of another origin (another topic) or
another layout, or a damaged file, is emptied and filled again.
"""

import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from culm_topics.errors import TopicsError
from culm_topics.sds.records import SdsIndexRecord

_LAYOUT: Final = 1
_BUSY_SECONDS: Final = 30.0
_CACHE_KIB: Final = 32 * 1024
# SQLite's integers are signed: shifted, unsigned ones keep their order.
_SHIFT: Final = 1 << 63
_ASK_AT_ONCE: Final = 500
_NAMES: Final = ("about", "reached", "channels", "messages")
_DROP: Final = "".join(f"DROP TABLE IF EXISTS {name};\n" for name in _NAMES)
_TABLES: Final = f"""
PRAGMA user_version = {_LAYOUT};
CREATE TABLE IF NOT EXISTS about (origin TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS reached (partition INTEGER PRIMARY KEY, next_offset INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS channels (number INTEGER PRIMARY KEY, channel_id TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS messages (
    channel INTEGER NOT NULL, message_id TEXT NOT NULL, lamport INTEGER NOT NULL,
    place INTEGER NOT NULL, place_offset INTEGER NOT NULL, sender_id TEXT NOT NULL, size INTEGER NOT NULL,
    check_bytes BLOB NOT NULL, retrieval_hint BLOB,
    PRIMARY KEY (channel, message_id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS in_order ON messages (channel, lamport, message_id);
"""
_COLUMNS: Final = "message_id, place, place_offset, lamport, sender_id, size, check_bytes, retrieval_hint"

Change = tuple[str, str, SdsIndexRecord | None]
"""(channel id, message id, its row, or None if it has been deleted)."""
Position = tuple[int, str]
"""(Lamport timestamp, message id): the position of a message in its channel's log."""


class IndexFileFailed(TopicsError):
    """The local file of the index cannot be used at its path."""

    code = "topics.sds.index_file"


class IndexFile:
    """The rows of one file; for several threads, one at a time. `origin` is the identity of their topics."""

    def __init__(self, path: Path, origin: str) -> None:
        self.path = path
        self._lock = threading.Lock()
        try:
            self._file = self._open(origin)
        except sqlite3.DatabaseError:
            # Damaged, or another kind of file. A cache is deleted without asking.
            self._discard()
            self._file = self._open(origin)

    def renew(self, origin: str, *, discard: bool) -> None:
        """Start again, unless another program already has done so for this origin.

        `discard`: the file is in doubt and is deleted; programs that have it open keep their copy.
        """
        with self._lock:
            self._file.close()
            if discard:
                self._discard()
            self._file = self._open(origin)

    def _open(self, origin: str) -> sqlite3.Connection:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            file = sqlite3.connect(
                self.path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
        except (OSError, sqlite3.OperationalError) as error:
            raise IndexFileFailed(f"{self.path}: {error}") from error
        try:
            file.execute("PRAGMA journal_mode = WAL")
            # A cache may lose its last transactions in a power failure, but never half of one.
            file.execute("PRAGMA synchronous = NORMAL")
            file.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
            if file.execute("PRAGMA user_version").fetchone() != (_LAYOUT,):
                file.executescript(_DROP)
            file.executescript(_TABLES)
            with _transaction(file):
                if file.execute("SELECT origin FROM about").fetchone() != (origin,):
                    for table in _NAMES:
                        file.execute(f"DELETE FROM {table}")
                    file.execute("INSERT INTO about VALUES (?)", (origin,))
        except BaseException as error:
            file.close()
            if isinstance(error, sqlite3.DatabaseError) and not is_damaged(error):
                raise IndexFileFailed(f"{self.path}: {error}") from error
            raise
        return file

    def _discard(self) -> None:
        for ending in ("", "-wal", "-shm"):
            self.path.with_name(self.path.name + ending).unlink(missing_ok=True)

    def reached(self) -> dict[int, int]:
        """Return the next offset to read, by partition of `sds.index`."""
        with self._lock:
            return dict(self._file.execute("SELECT partition, next_offset FROM reached"))

    def apply(self, partition: int, first: int, after: int, changes: Sequence[tuple[int, Change]]) -> bool:
        """Apply the changes at offsets `first` to before `after` of a partition: (offset, change), in order.

        Changes at offsets that the file already covers are ignored. Returns False if the file does not reach
        `first`: it was emptied meanwhile, and its reader has to start again.
        """
        with self._lock, _transaction(self._file):
            row = self._file.execute(
                "SELECT next_offset FROM reached WHERE partition = ?", (partition,)
            ).fetchone()
            if row is None or row[0] < first:
                return False
            if row[0] >= after:
                return True
            self._write([change for offset, change in changes if offset >= row[0]])
            self._file.execute("INSERT OR REPLACE INTO reached VALUES (?, ?)", (partition, after))
        return True

    def begin(self, partition: int, offset: int) -> None:
        """Record that the partition is read from `offset`, its first, unless it has a position already."""
        with self._lock, _transaction(self._file):
            self._file.execute("INSERT OR IGNORE INTO reached VALUES (?, ?)", (partition, offset))

    def find(self, channel_id: str, message_ids: Iterable[str]) -> dict[str, SdsIndexRecord]:
        """Return the rows of these messages that exist."""
        wanted = list(dict.fromkeys(message_ids))
        rows: dict[str, SdsIndexRecord] = {}
        with self._lock:
            channel = self._channel(channel_id)
            for start in range(0, len(wanted), _ASK_AT_ONCE):
                chunk = wanted[start : start + _ASK_AT_ONCE]
                marks = ", ".join("?" * len(chunk))
                rows.update(
                    (row[0], _record(row))
                    for row in self._file.execute(
                        f"SELECT {_COLUMNS} FROM messages WHERE channel = ? AND message_id IN ({marks})",
                        (channel, *chunk),
                    )
                )
        return rows

    def newest(self, channel_id: str, count: int) -> list[Position]:
        """Return the last messages of the channel's log, the newest last."""
        with self._lock:
            rows = self._file.execute(
                "SELECT lamport, message_id FROM messages WHERE channel = ?"
                " ORDER BY lamport DESC, message_id DESC LIMIT ?",
                (self._channel(channel_id), count),
            ).fetchall()
        return [(lamport + _SHIFT, message_id) for lamport, message_id in reversed(rows)]

    def page(self, channel_id: str, after: Position | None, count: int) -> list[tuple[str, SdsIndexRecord]]:
        """Return (id, row) of the next messages of the channel's log after `after`, in order.

        Begins with the first message if `after` is None.
        """
        lamport, message_id = (0, "") if after is None else after
        with self._lock:
            rows = self._file.execute(
                f"SELECT {_COLUMNS} FROM messages WHERE channel = ? AND (lamport, message_id) > (?, ?)"
                " ORDER BY lamport, message_id LIMIT ?",
                (self._channel(channel_id), lamport - _SHIFT, message_id, count),
            ).fetchall()
        return [(row[0], _record(row)) for row in rows]

    def count(self, channel_id: str) -> int:
        """Return the number of stored messages of the channel."""
        with self._lock:
            return int(
                self._file.execute(
                    "SELECT count(*) FROM messages WHERE channel = ?", (self._channel(channel_id),)
                ).fetchone()[0]
            )

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._file.close()

    def _write(self, changes: Iterable[Change]) -> None:
        numbers: dict[str, int] = {}
        rows: dict[tuple[int, str], SdsIndexRecord | None] = {}
        for channel_id, message_id, row in changes:
            number = numbers.get(channel_id)
            if number is None:
                self._file.execute("INSERT OR IGNORE INTO channels (channel_id) VALUES (?)", (channel_id,))
                number = numbers[channel_id] = self._channel(channel_id)
            rows[number, message_id] = row
        self._file.executemany(
            "DELETE FROM messages WHERE channel = ? AND message_id = ?",
            [key for key, row in rows.items() if row is None],
        )
        # In the order of the keys: neighbours share a page.
        self._file.executemany(
            "INSERT OR REPLACE INTO messages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (
                    *key,
                    row.lamport_timestamp - _SHIFT,
                    row.partition,
                    row.offset,
                    row.sender_id,
                    row.size,
                    row.check,
                    row.retrieval_hint,
                )
                for key, row in sorted(rows.items(), key=lambda item: item[0])
                if row is not None
            ],
        )

    def _channel(self, channel_id: str) -> int:
        row = self._file.execute("SELECT number FROM channels WHERE channel_id = ?", (channel_id,)).fetchone()
        return -1 if row is None else int(row[0])


def channels_in(path: Path, start: str, max_channels: int = 100) -> list[str]:
    """Return channels of any index file that start with `start`; empty if it cannot be read.

    For completion.
    """
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=0.1)) as file:
            return [
                str(row[0])
                for row in file.execute(
                    "SELECT channel_id FROM channels WHERE substr(channel_id, 1, ?) = ? LIMIT ?",
                    (len(start), start, max_channels),
                )
            ]
    except sqlite3.Error:
        return []


@contextmanager
def _transaction(file: sqlite3.Connection) -> Iterator[None]:
    """Begin as a writer at once, so that reads see the state that is changed; roll back on any error."""
    file.execute("BEGIN IMMEDIATE")
    try:
        yield
        file.execute("COMMIT")
    finally:
        if file.in_transaction:
            file.execute("ROLLBACK")


def _record(row: Sequence[object]) -> SdsIndexRecord:
    _, partition, offset, lamport, sender_id, size, check, hint = row
    if not (
        isinstance(partition, int)
        and isinstance(offset, int)
        and isinstance(lamport, int)
        and isinstance(sender_id, str)
        and isinstance(size, int)
        and isinstance(check, bytes)
        and (hint is None or isinstance(hint, bytes))
    ):
        raise _RowDamaged("a row holds what was never written")
    return SdsIndexRecord(partition, offset, lamport + _SHIFT, sender_id, size, check, hint)


class _RowDamaged(sqlite3.DatabaseError):
    """A value is not of the written type: SQLite keeps any type of value in any column."""


def is_damaged(error: sqlite3.DatabaseError) -> bool:
    """Whether the file's contents are wrong, and not the disk, the rights or the caller."""
    if isinstance(error, _RowDamaged):
        return True
    return getattr(error, "sqlite_errorcode", None) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
