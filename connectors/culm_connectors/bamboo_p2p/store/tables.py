"""The tables of a folder of logs, and the opening of its database: one format number, one flavour.

Sequence numbers and log ids are unsigned 64-bit numbers, which SQLite's integers cannot hold. They are stored
as eight big-endian bytes, so that they sort like numbers.

`Checkpoints` moves commits from the write-ahead log into the database, in its own thread.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from culm_connectors.bamboo_p2p.errors import FolderError
from culm_connectors.bamboo_p2p.store.runs import fill_runs
from culm_connectors.local_store.sqlite_file import opening_database
from culm_models.bamboo.hashes import FLAVOURS, HashFlavour

DATABASE_FILE: Final = "logs.sqlite"
FORMAT: Final = 4
_FORMAT_BEFORE_RUNS: Final = 2
NOBODY: Final = ""
"""Placeholder for an unknown principal."""
_SPOOLED: Final = """CREATE TABLE spooled (
    log INTEGER NOT NULL, seq_num BLOB NOT NULL, principal TEXT NOT NULL, bytes INTEGER NOT NULL,
    touched_at INTEGER NOT NULL, PRIMARY KEY (log, seq_num, principal)
) WITHOUT ROWID"""
"""Unverified bytes of a payload by principal, and the arrival of the last one (seconds since 1970)."""
_SPOOLED_FROM: Final = """CREATE TABLE IF NOT EXISTS spooled_from (
    log INTEGER NOT NULL, seq_num BLOB NOT NULL, address TEXT NOT NULL, bytes INTEGER NOT NULL,
    touched_at INTEGER NOT NULL, PRIMARY KEY (log, seq_num, address)
) WITHOUT ROWID"""
_FORGOTTEN_FROM: Final = (
    "DELETE FROM spooled_from WHERE NOT EXISTS (SELECT 1 FROM spooled s "
    "WHERE s.log = spooled_from.log AND s.seq_num = spooled_from.seq_num)"
)
"""Deletes rows of `spooled_from`, the table by address, for payloads that are no longer in `spooled`.

Earlier programs of format 4 do not have the table `spooled_from` and do not update it.
"""
_BUSY_TIMEOUT_S: Final = 30.0
_APPLICATION_ID: Final = 0x43424D42

_SCHEMA: Final = f"""
{_SPOOLED};
CREATE TABLE flavour (name TEXT NOT NULL);
CREATE TABLE logs (
    log INTEGER PRIMARY KEY, public_key BLOB NOT NULL, log_id BLOB NOT NULL,
    fork_one BLOB, fork_other BLOB, payload_bytes INTEGER NOT NULL DEFAULT 0, ends_at BLOB,
    UNIQUE (public_key, log_id)
);
CREATE TABLE entries (
    log INTEGER NOT NULL, seq_num BLOB NOT NULL, entry BLOB NOT NULL, ends_log INTEGER NOT NULL,
    PRIMARY KEY (log, seq_num)
) WITHOUT ROWID;
CREATE TABLE payloads (
    payload INTEGER PRIMARY KEY, log INTEGER NOT NULL, seq_num BLOB NOT NULL, is_held INTEGER NOT NULL,
    size INTEGER NOT NULL DEFAULT 0, held_at INTEGER NOT NULL DEFAULT 0, UNIQUE (log, seq_num)
);
CREATE INDEX held_payloads ON payloads (held_at) WHERE is_held = 1;
CREATE INDEX partial_payloads ON payloads (log) WHERE is_held = 0;
CREATE TABLE runs (
    log INTEGER NOT NULL, kind INTEGER NOT NULL, first BLOB NOT NULL, last BLOB NOT NULL,
    PRIMARY KEY (log, kind, first)
) WITHOUT ROWID;
CREATE TABLE parts (
    part INTEGER PRIMARY KEY, payload INTEGER NOT NULL, offset INTEGER NOT NULL, data BLOB NOT NULL,
    UNIQUE (payload, offset)
);
CREATE TABLE paused (name TEXT PRIMARY KEY);
"""
"""`parts` of one payload never overlap. `is_held` is one of `IN_PARTS`, `HELD`, `DROPPED`; `size` (bytes) and
`held_at` (seconds since 1970) belong to held payloads. `runs` has the kinds of `RunKind`; `ends_at` is the
entry that ends a log. `paused` has the names of logs and peers."""

IN_PARTS, HELD, DROPPED = range(3)
"""State of a payload: unverified parts; held; dropped, and not to be requested again."""

_STEPS: Final[dict[int, str]] = {
    1: """
ALTER TABLE payloads ADD COLUMN size INTEGER NOT NULL DEFAULT 0;
ALTER TABLE payloads ADD COLUMN held_at INTEGER NOT NULL DEFAULT 0;
CREATE INDEX held_payloads ON payloads (held_at) WHERE is_held = 1;
UPDATE payloads SET held_at = CAST(strftime('%s', 'now') AS INTEGER), size = ifnull(
    (SELECT sum(length(data)) FROM parts WHERE parts.payload = payloads.payload), 0) WHERE is_held = 1;
CREATE TABLE paused (name TEXT PRIMARY KEY);
""",
    2: """
ALTER TABLE logs ADD COLUMN payload_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE logs ADD COLUMN ends_at BLOB;
UPDATE logs SET payload_bytes = ifnull(
    (SELECT sum(size) FROM payloads WHERE payloads.log = logs.log AND is_held = 1), 0);
UPDATE logs SET ends_at = (SELECT max(seq_num) FROM entries WHERE entries.log = logs.log AND ends_log = 1);
CREATE INDEX partial_payloads ON payloads (log) WHERE is_held = 0;
CREATE TABLE runs (
    log INTEGER NOT NULL, kind INTEGER NOT NULL, first BLOB NOT NULL, last BLOB NOT NULL,
    PRIMARY KEY (log, kind, first)
) WITHOUT ROWID;
""",
    3: f"""
{_SPOOLED};
INSERT INTO spooled SELECT log, seq_num, '{NOBODY}', sum(length(data)), CAST(strftime('%s', 'now') AS INTEGER)
    FROM payloads JOIN parts USING (payload) WHERE is_held = 0 GROUP BY payload;
""",
}
"""Statements that convert a folder from one format to the next; `fill_runs` completes the second step.

The principals of parts in a folder of format 3 are unknown: the parts expire, and count to no share.
"""


_COMMITS: Final = 32
_LOG_PAGES_MAX: Final = 8_192
"""Size of the write-ahead log (32 MiB) above which commits checkpoint themselves and wait for the disk."""


@contextmanager
def open_database(
    folder: Path, flavour: HashFlavour | None
) -> Iterator[tuple[sqlite3.Connection, HashFlavour]]:
    """Open the database of a folder. Yields it with its flavour; it is closed if the context raises an error.

    With a flavour, a missing folder is created. Raises `FolderError`.
    """
    path = folder / DATABASE_FILE
    if flavour is None and not path.exists():
        raise FolderError(f"{folder} holds no logs", hint="publish, sync or import into it first")
    with opening_database(path, _BUSY_TIMEOUT_S, FolderError) as database:
        yield database, _prepared(database, folder, flavour)


def _prepared(database: sqlite3.Connection, folder: Path, flavour: HashFlavour | None) -> HashFlavour:
    """Create the tables of a new database, or migrate an older one. Returns its flavour."""
    database.execute("BEGIN IMMEDIATE")
    version = database.execute("PRAGMA user_version").fetchone()[0]
    if not version:
        for statement in _SCHEMA.split(";"):
            database.execute(statement)
        database.execute("INSERT INTO flavour VALUES (?)", ((flavour or FLAVOURS["yamf"]).name,))
        database.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        version = FORMAT
    while version in _STEPS:
        for statement in _STEPS[version].split(";"):
            database.execute(statement)
        if version == _FORMAT_BEFORE_RUNS:
            fill_runs(database, HELD, DROPPED)
        version += 1
    if version == FORMAT:
        database.execute(_SPOOLED_FROM)
        database.execute(_FORGOTTEN_FROM)
        database.execute(f"PRAGMA user_version = {FORMAT}")
    database.execute("COMMIT")
    if version != FORMAT:
        raise FolderError(
            f"{folder / DATABASE_FILE} has the format {version}, and this program reads {FORMAT}",
            hint="use a newer Culm",
        )
    (name,) = database.execute("SELECT name FROM flavour").fetchone()
    if (stored_flavour := FLAVOURS.get(name)) is None:
        raise FolderError(f"{folder} holds logs of the flavour {name!r}, which is not known")
    if flavour is not None and stored_flavour is not flavour:
        raise FolderError(
            f"{folder} holds logs of the flavour {stored_flavour.name}, not {flavour.name}",
            hint=f"give --flavour {stored_flavour.name}, or another folder",
        )
    return stored_flavour


def number_key(number: int) -> bytes:
    """Return the stored form of a 64-bit number."""
    return number.to_bytes(8, "big")


class Checkpoints:
    """Checkpoints of one database, one after at least `_COMMITS` commits. All methods are for one thread.

    The checkpoints' own thread starts with the first one, so a process with few commits never has it.
    """

    def __init__(self, database: sqlite3.Connection, path: Path) -> None:
        database.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES_MAX}")
        self._path = path
        self._commits = 0
        self._thread = ThreadPoolExecutor(1, "checkpoints")
        self._latest: Future[None] | None = None
        self._database: sqlite3.Connection | None = None

    def count_commit(self) -> None:
        """Count a commit, and start a checkpoint if one is due."""
        self._commits += 1
        if self._commits >= _COMMITS and (self._latest is None or self._latest.done()):
            self._commits = 0
            self._latest = self._thread.submit(self._checkpoint)

    def close(self) -> None:
        """Wait for the latest checkpoint, and close its connection to the database."""
        self._thread.shutdown()
        if self._database is not None:
            self._database.close()

    def _checkpoint(self) -> None:
        if self._database is None:
            self._database = sqlite3.connect(self._path, check_same_thread=False, isolation_level=None)
            self._database.execute("PRAGMA synchronous = NORMAL")
        # A passive checkpoint does not wait: pages that others still use are left to the next one.
        self._database.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
