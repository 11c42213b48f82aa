"""Shares of the spool: unverified bytes by principal and by address.

A byte counts to the principal and the address that sent it first, until its payload is held or discarded.
Sending it again neither moves it nor frees capacity. Both are stored in the folder by name, so that shares
outlive a process.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from culm_connectors.bamboo_p2p.store.tables import IN_PARTS, NOBODY, number_key
from culm_connectors.edge.fair_turns import caller_address
from culm_models.bamboo.log_store import LogKey

_PEERS_IN_ALL: Final = 4
_ADDRESSES_IN_ALL: Final = 2
_BROUGHT: Final = (
    "SELECT public_key, log_id, seq_num, sum(bytes) FROM {} JOIN logs USING (log) {} ORDER BY max(touched_at)"
)


class UnfinishedPayload(NamedTuple):
    """A payload with unverified parts, and the number of its bytes with a recorded sender."""

    log: LogKey
    seq_num: int
    bytes: int


class SpoolShare:
    """Unverified bytes by holder (principals, or addresses), stored in one table of the folder.

    `limit`: unverified bytes that one holder may have; `full`: holders that have reached the limit.
    """

    def __init__(self, database: sqlite3.Connection, table: str, holder: str, limit: int) -> None:
        self._database = database
        self._table = table
        self._holder = holder
        self._counts = Counter[str]()
        self.limit = limit
        self.full: set[str] = set()

    def load(self) -> None:
        """Read the shares from the folder again."""
        query = f"SELECT {self._holder}, sum(bytes) FROM {self._table} WHERE {self._holder} != ? GROUP BY 1"
        self._counts = Counter(dict(self._database.execute(query, (NOBODY,)).fetchall()))
        self.full = {name for name, count in self._counts.items() if count >= self.limit}

    def add(self, key: tuple[int, bytes], name: str, size: int, now_s: int) -> None:
        """Count bytes of a payload to a holder."""
        self._database.execute(
            f"INSERT INTO {self._table} VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO UPDATE "
            "SET bytes = bytes + ?4, touched_at = ?5",
            (*key, name, size, now_s),
        )
        self._count(name, size)

    def forget(self, key: tuple[int, bytes]) -> None:
        """Remove the bytes of a payload from the shares, because it is held or discarded."""
        query = f"SELECT {self._holder}, bytes FROM {self._table} WHERE log = ? AND seq_num = ?"
        rows = self._database.execute(query, key).fetchall()
        if rows:
            self._database.execute(f"DELETE FROM {self._table} WHERE log = ? AND seq_num = ?", key)
        for name, size in rows:
            if name != NOBODY:
                self._count(name, -size)

    def bytes_of(self, name: str) -> int:
        """Return the unverified bytes of a holder."""
        return self._counts[name]

    def of(self, name: str) -> list[UnfinishedPayload]:
        """Return the unfinished payloads with parts of a holder and the bytes it sent, oldest first."""
        query = _BROUGHT.format(self._table, f"WHERE {self._holder} = ? GROUP BY log, seq_num")
        return _unfinished(self._database, query, name)

    def _count(self, name: str, difference: int) -> None:
        self._counts[name] += difference
        if not self._counts[name]:
            del self._counts[name]
        if self._counts[name] >= self.limit:
            self.full.add(name)
        else:
            self.full.discard(name)


class SpoolShares:
    """The shares of one folder's spool, inside the folder's transaction.

    Without `peer_bytes` a principal has a quarter of the spool, without `address_bytes` an address has half;
    an address never has less than a principal. Bytes that the owner or topics add count to no share.
    """

    def __init__(
        self,
        database: sqlite3.Connection,
        max_spool_bytes: int,
        peer_bytes: int | None,
        address_bytes: int | None,
        clock_s: Callable[[], float],
    ) -> None:
        self._database = database
        self._clock_s = clock_s
        self._principal: str | None = None
        of_peer = min(peer_bytes or max(1, max_spool_bytes // _PEERS_IN_ALL), max_spool_bytes)
        of_address = max(of_peer, address_bytes or max_spool_bytes // _ADDRESSES_IN_ALL)
        self.peers = SpoolShare(database, "spooled", "principal", of_peer)
        self.addresses = SpoolShare(database, "spooled_from", "address", of_address)

    @property
    def peer_bytes(self) -> int:
        """Limit of one principal's share, in bytes."""
        return self.peers.limit

    @property
    def full(self) -> frozenset[str]:
        """Principals whose share is full."""
        return frozenset(self.peers.full)

    def load(self) -> None:
        """Read the shares from the folder again."""
        self.peers.load()
        self.addresses.load()

    @contextmanager
    def received_from(self, principal: str) -> Iterator[None]:
        """Count bytes that are added within the context to a principal."""
        self._principal = principal
        try:
            yield
        finally:
            self._principal = None

    def add(self, log: int, seq_num: int, size: int) -> None:
        """Count new bytes of a payload to the current principal and address; `log` is the log's row."""
        principal = self._principal
        if principal is None or not size:
            return
        key, now_s = (log, number_key(seq_num)), int(self._clock_s())
        self.peers.add(key, principal, size, now_s)
        if address := caller_address():
            self.addresses.add(key, address, size, now_s)

    def forget(self, log: int, seq_num: int) -> None:
        """Remove the bytes of a payload from the shares, because it is held or discarded."""
        key = (log, number_key(seq_num))
        self.peers.forget(key)
        self.addresses.forget(key)

    def bytes_of(self, principal: str) -> int:
        """Return the unverified bytes of a principal."""
        return self.peers.bytes_of(principal)

    def unfinished(self) -> list[UnfinishedPayload]:
        """Return all payloads with unverified parts, oldest first."""
        return _unfinished(
            self._database,
            "SELECT public_key, log_id, p.seq_num, ifnull(sum(bytes), 0) "
            "FROM payloads p JOIN logs USING (log) LEFT JOIN spooled USING (log, seq_num) "
            f"WHERE is_held = {IN_PARTS} GROUP BY payload ORDER BY payload",
        )

    def untouched(self, seconds: int) -> list[UnfinishedPayload]:
        """Return the payloads of which no further byte has arrived for so long, oldest first."""
        before = int(self._clock_s()) - seconds
        query = _BROUGHT.format("spooled", "GROUP BY log, seq_num HAVING max(touched_at) <= ?")
        return _unfinished(self._database, query, before)


def _unfinished(database: sqlite3.Connection, query: str, *values: int | str) -> list[UnfinishedPayload]:
    return [
        UnfinishedPayload((public_key, int.from_bytes(log_id, "big")), int.from_bytes(seq_num, "big"), size)
        for public_key, log_id, seq_num, size in database.execute(query, values).fetchall()
    ]
