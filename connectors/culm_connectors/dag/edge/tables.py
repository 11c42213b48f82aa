"""Tables of an edge in the database of its DAGs, under the same transactions: origin, offsets, outbox."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from culm_connectors.local_store.topic_offsets import TopicOffsets
from culm_models.dag.blocks.cid import Cid, cid_from_bytes

EDGE_FORMAT: Final = 1
SHARDS_TOPIC: Final = "dag.shards"

_SCHEMA: Final = """
CREATE TABLE edge_outbox (
    number INTEGER PRIMARY KEY AUTOINCREMENT, what INTEGER NOT NULL, cid BLOB NOT NULL, space BLOB NOT NULL,
    peer BLOB NOT NULL, received_at INTEGER NOT NULL, UNIQUE (cid, what, space, received_at)
);
"""


_LATER_TABLES: Final = """
CREATE TABLE IF NOT EXISTS edge_skipped (key BLOB PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS edge_again (topic TEXT PRIMARY KEY) WITHOUT ROWID;
"""
"""Keys of `blocked` for which shards of the topic were skipped; topics to be read again from their start."""


class OutboxKind(IntEnum):
    """Kind of an item in the outbox, which determines its topic."""

    NODE = 1
    """An append, a join or a UCAN of a space."""
    PUBLISH = 2
    """A publish with a time of receipt; its space is the id."""
    SHARD = 3


@dataclass(frozen=True, slots=True)
class OutboxItem:
    """Data that Kafka does not have yet, with the peer that sent it."""

    number: int
    what: OutboxKind
    cid: Cid
    space: bytes
    peer: bytes
    received_at: int


class DagEdgeTables:
    """The tables of one folder. `transaction` returns its database with a transaction begun."""

    def __init__(self, transaction: Callable[[], sqlite3.Connection]) -> None:
        self._begin = transaction
        self.topics = TopicOffsets(transaction, EDGE_FORMAT, _SCHEMA)

    def create_newer_tables(self) -> None:
        """Create the tables that folders of earlier versions are missing."""
        for statement in _LATER_TABLES.split(";"):
            self._begin().execute(statement)

    # Topics to be read again.

    def skipped(self, keys: Iterable[bytes]) -> None:
        """Record that a shard of the topic was skipped because these keys are blocked."""
        self._begin().executemany("INSERT OR IGNORE INTO edge_skipped VALUES (?)", [(key,) for key in keys])

    def was_skipped(self, key: bytes) -> bool:
        """Return whether a shard was skipped for this key, and forget it."""
        return bool(self._begin().execute("DELETE FROM edge_skipped WHERE key = ?", (key,)).rowcount)

    def want_again(self, name: str) -> None:
        """Mark a topic, by its name in the catalogue, to be read from its start."""
        self._begin().execute("INSERT OR IGNORE INTO edge_again VALUES (?)", (name,))

    def begin_again(self, name: str, topic: str) -> bool:
        """Forget the offsets of a topic if it is marked to be read again; returns whether it was."""
        query = "DELETE FROM edge_again WHERE topic = ?"
        is_wanted = bool(self._begin().execute(query, (name,)).rowcount)
        if is_wanted:
            self.topics.forget(topic)
        return is_wanted

    # Blocked keys.

    def blocked_shards(self, key: bytes) -> list[Cid]:
        """Return the shards here that a key blocks: the shard with this CID, or those only in this space.

        A space has the shards that came in it and those that its nodes name; blocked spaces do not count.
        """
        query = (
            "SELECT cid FROM shards WHERE cid = ?1 UNION SELECT cid FROM shards WHERE "
            "cid IN (SELECT shard FROM shard_places WHERE space = ?1) AND cid NOT IN "
            "(SELECT shard FROM shard_places WHERE space NOT IN (SELECT key FROM blocked)) AND cid NOT IN "
            "(SELECT n.shard FROM places p JOIN names n USING (node) "
            "WHERE p.space NOT IN (SELECT key FROM blocked))"
        )
        return [cid_from_bytes(raw) for (raw,) in self._begin().execute(query, (key,)).fetchall()]

    def blocked_beside(self, space: bytes) -> list[bytes]:
        """Return the blocked spaces in which shards of this space came, too."""
        query = (
            "SELECT DISTINCT space FROM shard_places WHERE space IN (SELECT key FROM blocked) "
            "AND shard IN (SELECT shard FROM shard_places WHERE space = ?)"
        )
        return [key for (key,) in self._begin().execute(query, (space,)).fetchall()]

    # The outbox.

    def put(self, what: OutboxKind, cid: Cid, space: bytes, peer: bytes, received_at: int = 0) -> int | None:
        """Put an item into the outbox; returns its number, or None if the same item already waits."""
        cursor = self._begin().execute(
            "INSERT OR IGNORE INTO edge_outbox (what, cid, space, peer, received_at) VALUES (?, ?, ?, ?, ?)",
            (int(what), cid.raw, space, peer, received_at),
        )
        return cursor.lastrowid if cursor.rowcount else None

    def numbers(self) -> list[int]:
        """Return the numbers of all items in the outbox, ascending."""
        rows = self._begin().execute("SELECT number FROM edge_outbox ORDER BY number").fetchall()
        return [number for (number,) in rows]

    def numbers_of(self, cid: Cid) -> tuple[int, ...]:
        """Return the numbers of the items with a CID."""
        query = "SELECT number FROM edge_outbox WHERE cid = ?"
        return tuple(number for (number,) in self._begin().execute(query, (cid.raw,)))

    def first(self, kinds: Iterable[OutboxKind], max_items: int) -> list[OutboxItem]:
        """Return the items of these kinds that have waited longest, in order."""
        listed = ",".join(str(int(kind)) for kind in kinds)
        query = f"SELECT * FROM edge_outbox WHERE what IN ({listed}) ORDER BY number LIMIT ?"
        return [
            OutboxItem(number, OutboxKind(what), cid_from_bytes(raw), *rest)
            for number, what, raw, *rest in self._begin().execute(query, (max_items,)).fetchall()
        ]

    def delete(self, numbers: Iterable[int]) -> None:
        """Remove items that Kafka has acknowledged."""
        query = "DELETE FROM edge_outbox WHERE number = ?"
        self._begin().executemany(query, ((number,) for number in numbers))

    # Sizes.

    def sizes(self) -> tuple[int, int, int, int]:
        """Return the count of nodes and UCANs, the count of shards, their bytes, and the bytes in spools."""
        query = (
            "SELECT (SELECT count(*) FROM nodes), count(*), ifnull(sum(size), 0), "
            "(SELECT ifnull(sum(received), 0) FROM spools) FROM shards"
        )
        nodes, shards, shard_bytes, spooled_bytes = self._begin().execute(query).fetchone()
        return nodes, shards, shard_bytes, spooled_bytes

    def space_bytes(self, space: bytes) -> int:
        """Return the size of a space's nodes, UCANs and shards, in bytes."""
        database = self._begin()
        nodes = (
            "SELECT ifnull(sum(length(n.block)), 0) FROM places p JOIN nodes n USING (node) WHERE space = ?"
        )
        shards = (
            "SELECT ifnull(sum(h.size), 0) FROM shard_places p JOIN shards h ON h.cid = p.shard "
            "WHERE space = ?"
        )
        sizes = (database.execute(query, (space,)).fetchone()[0] for query in (nodes, shards))
        return sum(sizes)

    def has_shard_in(self, space: bytes, shard: Cid) -> bool:
        """Return whether a shard came in a space."""
        query = "SELECT 1 FROM shard_places WHERE space = ? AND shard = ?"
        return self._begin().execute(query, (space, shard.raw)).fetchone() is not None

    def spaces_of_shard(self, shard: Cid) -> list[bytes]:
        """Return the spaces in which a shard came."""
        query = "SELECT space FROM shard_places WHERE shard = ?"
        return [space for (space,) in self._begin().execute(query, (shard.raw,)).fetchall()]
