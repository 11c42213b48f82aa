"""What an edge keeps beside its DAGs, in the same database and transaction: origin, offsets, outbox."""

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
"""Keys of `blocked` for which shards of the topic were left out; topics to be read again from their start."""


class OutboxKind(IntEnum):
    """What waits, and for which topic."""

    NODE = 1
    """An append, a join or a UCAN of a space."""
    PUBLISH = 2
    """A publish, of the id that stands as its space, with a time of receipt."""
    SHARD = 3


@dataclass(frozen=True, slots=True)
class OutboxItem:
    """Something that Kafka does not have, and who brought it."""

    number: int
    what: OutboxKind
    cid: Cid
    space: bytes
    peer: bytes
    received_at: int


class EdgeTables:
    """The tables of one folder. `transaction` gives its database, with a transaction begun."""

    def __init__(self, transaction: Callable[[], sqlite3.Connection]) -> None:
        self._begin = transaction
        self.topics = TopicOffsets(transaction, EDGE_FORMAT, _SCHEMA)

    def make_later_ones(self) -> None:
        """Make the tables that folders of earlier programs lack."""
        for statement in _LATER_TABLES.split(";"):
            self._begin().execute(statement)

    # What is read again.

    def skipped(self, keys: Iterable[bytes]) -> None:
        """A shard of the topic was left out, since these are blocked."""
        self._begin().executemany("INSERT OR IGNORE INTO edge_skipped VALUES (?)", [(key,) for key in keys])

    def was_skipped(self, key: bytes) -> bool:
        """Whether a shard was left out for this since it was last asked."""
        return bool(self._begin().execute("DELETE FROM edge_skipped WHERE key = ?", (key,)).rowcount)

    def want_again(self, name: str) -> None:
        """A topic, by its name in the catalogue, is to be read from its start."""
        self._begin().execute("INSERT OR IGNORE INTO edge_again VALUES (?)", (name,))

    def begin_again(self, name: str, topic: str) -> bool:
        """Forget how far a topic was read, where it is to be read again."""
        query = "DELETE FROM edge_again WHERE topic = ?"
        is_wanted = bool(self._begin().execute(query, (name,)).rowcount)
        if is_wanted:
            self.topics.forget(topic)
        return is_wanted

    # What is blocked.

    def blocked_shards(self, key: bytes) -> list[Cid]:
        """Shards that are here and blocked by a key: the one of this CID, or those of this space alone.

        A space has the shards that came in it, and those that its nodes name; blocked spaces do not count.
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
        """Blocked spaces in which shards of a space came, too."""
        query = (
            "SELECT DISTINCT space FROM shard_places WHERE space IN (SELECT key FROM blocked) "
            "AND shard IN (SELECT shard FROM shard_places WHERE space = ?)"
        )
        return [key for (key,) in self._begin().execute(query, (space,)).fetchall()]

    # The outbox.

    def put(self, what: OutboxKind, cid: Cid, space: bytes, peer: bytes, received_at: int = 0) -> int | None:
        """Have something wait: its number; None where the very thing waits."""
        cursor = self._begin().execute(
            "INSERT OR IGNORE INTO edge_outbox (what, cid, space, peer, received_at) VALUES (?, ?, ?, ?, ?)",
            (int(what), cid.raw, space, peer, received_at),
        )
        return cursor.lastrowid if cursor.rowcount else None

    def numbers(self) -> list[int]:
        """Of all that waits, ascending."""
        rows = self._begin().execute("SELECT number FROM edge_outbox ORDER BY number").fetchall()
        return [number for (number,) in rows]

    def numbers_of(self, cid: Cid) -> tuple[int, ...]:
        """Of what waits under a CID."""
        query = "SELECT number FROM edge_outbox WHERE cid = ?"
        return tuple(number for (number,) in self._begin().execute(query, (cid.raw,)))

    def first(self, kinds: Iterable[OutboxKind], most: int) -> list[OutboxItem]:
        """What has waited for longest of some kinds, in order."""
        listed = ",".join(str(int(one)) for one in kinds)
        query = f"SELECT * FROM edge_outbox WHERE what IN ({listed}) ORDER BY number LIMIT ?"
        return [
            OutboxItem(number, OutboxKind(what), cid_from_bytes(raw), *rest)
            for number, what, raw, *rest in self._begin().execute(query, (most,)).fetchall()
        ]

    def delete(self, numbers: Iterable[int]) -> None:
        """Kafka has these."""
        query = "DELETE FROM edge_outbox WHERE number = ?"
        self._begin().executemany(query, ((number,) for number in numbers))

    # How much is here.

    def sizes(self) -> tuple[int, int, int, int]:
        """Nodes and UCANs; shards; their bytes; what has come of those on their way, in bytes."""
        query = (
            "SELECT (SELECT count(*) FROM nodes), count(*), ifnull(sum(size), 0), "
            "(SELECT ifnull(sum(received), 0) FROM spools) FROM shards"
        )
        nodes, shards, shard_bytes, spooled_bytes = self._begin().execute(query).fetchone()
        return nodes, shards, shard_bytes, spooled_bytes

    def space_bytes(self, space: bytes) -> int:
        """Of nodes, UCANs and shards."""
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
        """Whether a shard came in a space."""
        query = "SELECT 1 FROM shard_places WHERE space = ? AND shard = ?"
        return self._begin().execute(query, (space, shard.raw)).fetchone() is not None

    def spaces_of_shard(self, shard: Cid) -> list[bytes]:
        """The spaces in which a shard came."""
        query = "SELECT space FROM shard_places WHERE shard = ?"
        return [space for (space,) in self._begin().execute(query, (shard.raw,)).fetchall()]
