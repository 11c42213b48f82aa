"""Tables of an edge beside its logs, in the same database and transactions.

They hold the origin and offsets of topics, the published height of each log, the outbox, and payloads that
arrive apart from their entries. Logs are stored by their keys in Kafka, 64-bit numbers as in `store`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from culm_connectors.bamboo_p2p.errors import FolderError
from culm_connectors.bamboo_p2p.store.folder_store import FolderStore
from culm_connectors.bamboo_p2p.store.tables import number_key
from culm_connectors.local_store.refilled_folder import begin_from, open_or_refill
from culm_connectors.local_store.topic_offsets import TopicOffsets
from culm_models.bamboo.hashes import HashFlavour
from culm_models.bamboo.log_store import LogKey
from culm_topics.kafka.origin import Origin
from culm_topics.records import log_key, split_flavoured_log_key

EDGE_FORMAT: Final = 1
ENTRY, PAYLOAD = 1, 2
"""Kinds of rows in the outbox."""

_SCHEMA: Final = """
CREATE TABLE edge_published (log BLOB PRIMARY KEY, seq_num BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE edge_outbox (
    log BLOB NOT NULL, seq_num BLOB NOT NULL, what INTEGER NOT NULL, peer BLOB NOT NULL,
    session INTEGER NOT NULL, PRIMARY KEY (log, seq_num, what)
) WITHOUT ROWID;
CREATE TABLE edge_awaited (
    payload_hash BLOB NOT NULL, log BLOB NOT NULL, seq_num BLOB NOT NULL,
    PRIMARY KEY (payload_hash, log, seq_num)
) WITHOUT ROWID;
CREATE TABLE edge_unclaimed (
    number INTEGER PRIMARY KEY, payload_hash BLOB NOT NULL, offset INTEGER NOT NULL, data BLOB NOT NULL,
    UNIQUE (payload_hash, offset)
);
"""


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """An entry or payload that Kafka has not acknowledged, with its origin: peer and session."""

    seq_num: int
    what: int
    peer: bytes
    session: int


class BambooEdgeTables:
    """The tables of one folder. `transaction` returns its database within a transaction."""

    def __init__(self, transaction: Callable[[], sqlite3.Connection], flavour: HashFlavour) -> None:
        self._begin = transaction
        self._flavour = flavour
        self.topics = TopicOffsets(transaction, EDGE_FORMAT, _SCHEMA)

    def _key(self, log: LogKey) -> bytes:
        return log_key(*log, self._flavour)

    # How far logs are published.

    def published(self) -> dict[LogKey, int]:
        """Return, by log, the sequence number up to which it is on `entries` without a gap."""
        rows = self._begin().execute("SELECT log, seq_num FROM edge_published").fetchall()
        return {split_flavoured_log_key(key)[1]: int.from_bytes(seq_num, "big") for key, seq_num in rows}

    def keep_published(self, log: LogKey, seq_num: int) -> None:
        """Store the sequence number up to which a log is on `entries`."""
        query = "INSERT OR REPLACE INTO edge_published VALUES (?, ?)"
        self._begin().execute(query, (self._key(log), number_key(seq_num)))

    # The outbox.

    def rows(self, log: LogKey, max_items: int) -> list[OutboxRow]:
        """Return the first `max_items` rows of a log, in order."""
        query = "SELECT seq_num, what, peer, session FROM edge_outbox WHERE log = ? LIMIT ?"
        rows = self._begin().execute(query, (self._key(log), max_items)).fetchall()
        return [OutboxRow(int.from_bytes(seq_num, "big"), *rest) for seq_num, *rest in rows]

    def is_waiting(self, log: LogKey, seq_num: int) -> bool:
        """Whether an entry or its payload waits."""
        query = "SELECT 1 FROM edge_outbox WHERE log = ? AND seq_num = ?"
        return self._begin().execute(query, (self._key(log), number_key(seq_num))).fetchone() is not None

    def put_row(self, log: LogKey, row: OutboxRow) -> None:
        """Add a row, unless it is there."""
        self._begin().execute(
            "INSERT OR IGNORE INTO edge_outbox VALUES (?, ?, ?, ?, ?)",
            (self._key(log), number_key(row.seq_num), row.what, row.peer, row.session),
        )

    def delete_rows(self, log: LogKey, rows: Iterable[tuple[int, int]]) -> None:
        """Delete acknowledged rows, given as (sequence number, kind)."""
        key = self._key(log)
        self._begin().executemany(
            "DELETE FROM edge_outbox WHERE log = ? AND seq_num = ? AND what = ?",
            ((key, number_key(seq_num), what) for seq_num, what in rows),
        )

    # Payloads that arrive apart from their entries.

    def await_payload(self, payload_hash: bytes, log: LogKey, seq_num: int) -> None:
        """Note that an entry is missing this payload."""
        query = "INSERT OR IGNORE INTO edge_awaited VALUES (?, ?, ?)"
        self._begin().execute(query, (payload_hash, self._key(log), number_key(seq_num)))

    def awaiting(self, payload_hash: bytes) -> list[tuple[LogKey, int]]:
        """Return the entries that are missing a payload, as (log, sequence number)."""
        query = "SELECT log, seq_num FROM edge_awaited WHERE payload_hash = ?"
        rows = self._begin().execute(query, (payload_hash,)).fetchall()
        return [(split_flavoured_log_key(key)[1], int.from_bytes(seq_num, "big")) for key, seq_num in rows]

    def await_no_more(self, payload_hash: bytes, log: LogKey, seq_num: int) -> None:
        """Note that an entry is no longer missing this payload."""
        query = "DELETE FROM edge_awaited WHERE payload_hash = ? AND log = ? AND seq_num = ?"
        self._begin().execute(query, (payload_hash, self._key(log), number_key(seq_num)))

    def put_unclaimed(self, payload_hash: bytes, offset: int, data: bytes) -> None:
        """Keep a chunk that no entry needs yet."""
        query = "INSERT OR IGNORE INTO edge_unclaimed (payload_hash, offset, data) VALUES (?, ?, ?)"
        self._begin().execute(query, (payload_hash, offset, data))

    def claim(self, payload_hash: bytes) -> list[tuple[int, bytes]]:
        """Return the unclaimed chunks of a payload, as (offset, data), and delete them."""
        database = self._begin()
        query = "SELECT offset, data FROM edge_unclaimed WHERE payload_hash = ? ORDER BY offset"
        chunks = database.execute(query, (payload_hash,)).fetchall()
        if chunks:
            database.execute("DELETE FROM edge_unclaimed WHERE payload_hash = ?", (payload_hash,))
        return chunks

    def unclaimed_bytes(self) -> int:
        """Return the total size of unclaimed chunks, in bytes."""
        query = "SELECT coalesce(sum(length(data)), 0) FROM edge_unclaimed"
        size: int = self._begin().execute(query).fetchone()[0]
        return size

    def drop_oldest_unclaimed(self) -> int:
        """Delete the oldest unclaimed chunk. Returns its size in bytes; 0 if there is no chunk."""
        database = self._begin()
        oldest = database.execute(
            "SELECT number, length(data) FROM edge_unclaimed ORDER BY number LIMIT 1"
        ).fetchone()
        if oldest is None:
            return 0
        database.execute("DELETE FROM edge_unclaimed WHERE number = ?", (oldest[0],))
        size: int = oldest[1]
        return size


def open_edge_folder(
    folder: Path,
    flavour: HashFlavour,
    origin: Origin,
    *,
    max_spool_bytes: int,
    max_spool_bytes_per_peer: int | None = None,
    max_spool_bytes_per_address: int | None = None,
) -> tuple[FolderStore, BambooEdgeTables]:
    """Open the logs and tables of an edge. A damaged folder is set aside and refilled from Kafka.

    Raises `FolderError` if the folder belongs to other topics or to a newer Culm.
    """

    def open_once() -> tuple[FolderStore, BambooEdgeTables]:
        store = FolderStore(
            folder,
            flavour,
            max_spool_bytes=max_spool_bytes,
            max_spool_bytes_per_peer=max_spool_bytes_per_peer,
            max_spool_bytes_per_address=max_spool_bytes_per_address,
        )
        try:
            tables = BambooEdgeTables(store.transaction, flavour)
            begin_from(folder, tables.topics, origin, FolderError, export="culm bamboo export")
            store.commit()
        except BaseException:
            store.close()
            raise
        return store, tables

    return open_or_refill(folder, open_once, FolderError)
