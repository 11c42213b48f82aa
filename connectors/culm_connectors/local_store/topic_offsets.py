"""Offsets and origin of the topics that a SQLite folder has read, in one transaction with their data."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from typing import Final

from culm_topics.kafka.origin import Origin
from culm_topics.readers.batch import Partition

_SCHEMA: Final = """
CREATE TABLE edge (format INTEGER NOT NULL, origin BLOB NOT NULL);
CREATE TABLE edge_offsets (
    topic TEXT NOT NULL, number INTEGER NOT NULL, next INTEGER NOT NULL, PRIMARY KEY (topic, number)
) WITHOUT ROWID;
"""


class TopicOffsets:
    """Offsets and origin of one folder. `transaction` returns its database, with a transaction begun.

    `tables_format` is the number of the format of all tables that an edge adds to its folder;
    `further_tables` is the SQL that creates those tables that are not defined here.
    """

    def __init__(
        self,
        transaction: Callable[[], sqlite3.Connection],
        tables_format: int,
        further_tables: str,
    ) -> None:
        self.tables_format = tables_format
        self._begin = transaction
        self._further_tables = further_tables

    def make_tables(self, origin: Origin) -> None:
        """Create the tables in a folder that no edge has used before."""
        database = self._begin()
        for statement in (_SCHEMA + self._further_tables).split(";"):
            database.execute(statement)
        database.execute("INSERT INTO edge VALUES (?, ?)", (self.tables_format, origin.encode()))

    def origin(self) -> tuple[int, Origin] | None:
        """Return format and origin; None if there are no tables."""
        database = self._begin()
        query = "SELECT 1 FROM sqlite_master WHERE name = 'edge'"
        if database.execute(query).fetchone() is None:
            return None
        number, encoded = database.execute("SELECT format, origin FROM edge").fetchone()
        return number, Origin.decode(encoded)

    def kept(self) -> dict[Partition, int]:
        """Return the next offset of each partition that was read."""
        rows = self._begin().execute("SELECT topic, number, next FROM edge_offsets").fetchall()
        return {(topic, number): offset for topic, number, offset in rows}

    def keep(self, offsets: Mapping[Partition, int]) -> None:
        """Record these next offsets: every record before them has been stored."""
        self._begin().executemany(
            "INSERT OR REPLACE INTO edge_offsets VALUES (?, ?, ?)",
            [(topic, number, offset) for (topic, number), offset in offsets.items()],
        )

    def forget(self, topic: str) -> None:
        """Delete the offsets of a topic, so that it is read from its start."""
        self._begin().execute("DELETE FROM edge_offsets WHERE topic = ?", (topic,))
