"""Whose the parts of payloads are that nobody has verified yet: each principal has a share of the spool.

A byte counts to whoever brought it first, until its payload is held or forgotten: bringing it again neither
takes it over nor frees its room. Principals stand by name in the folder, so shares outlive a process.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from culm_connectors.bamboo_p2p.store.tables import IN_PARTS, NOBODY, number_key
from culm_models.bamboo.log_store import LogKey

_SHARES_IN_ALL: Final = 4
_BROUGHT: Final = (
    "SELECT public_key, log_id, seq_num, sum(bytes) FROM spooled JOIN logs USING (log) {} "
    "ORDER BY max(touched_at)"
)


class UnfinishedPayload(NamedTuple):
    """A payload of which there are parts, and how many bytes of them somebody is named for."""

    log: LogKey
    seq_num: int
    bytes: int


class SpoolShares:
    """The shares of one folder's spool, inside the folder's transaction; without `peer_bytes` a quarter.

    What is put while nobody is named, by the owner or from topics, counts to no share.
    """

    def __init__(
        self,
        database: sqlite3.Connection,
        spool_bytes: int,
        peer_bytes: int | None,
        clock_s: Callable[[], float],
    ) -> None:
        self._database = database
        self._clock_s = clock_s
        self._bringer: str | None = None
        self._counts = Counter[str]()
        self.peer_bytes = min(peer_bytes or max(1, spool_bytes // _SHARES_IN_ALL), spool_bytes)
        """What one principal may have brought, in bytes."""
        self.full: set[str] = set()
        """Principals whose share is taken up."""

    def load(self) -> None:
        """Read again what is whose."""
        query = "SELECT principal, sum(bytes) FROM spooled WHERE principal != ? GROUP BY principal"
        self._counts = Counter(dict(self._database.execute(query, (NOBODY,)).fetchall()))
        self.full = {name for name, count in self._counts.items() if count >= self.peer_bytes}

    @contextmanager
    def brought_by(self, principal: str) -> Iterator[None]:
        """What is put meanwhile is brought by a principal."""
        self._bringer = principal
        try:
            yield
        finally:
            self._bringer = None

    def add(self, log: int, seq_num: int, size: int) -> None:
        """So many bytes of a payload are there that were not; `log` is its row."""
        principal = self._bringer
        if principal is None or not size:
            return
        self._database.execute(
            "INSERT INTO spooled VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO UPDATE "
            "SET bytes = bytes + ?4, touched_at = ?5",
            (log, number_key(seq_num), principal, size, int(self._clock_s())),
        )
        self._count(principal, size)

    def forget(self, log: int, seq_num: int) -> None:
        """The parts of a payload are none any more."""
        key = (log, number_key(seq_num))
        query = "SELECT principal, bytes FROM spooled WHERE log = ? AND seq_num = ?"
        rows = self._database.execute(query, key).fetchall()
        if rows:
            self._database.execute("DELETE FROM spooled WHERE log = ? AND seq_num = ?", key)
        for principal, size in rows:
            if principal != NOBODY:
                self._count(principal, -size)

    def _count(self, principal: str, difference: int) -> None:
        self._counts[principal] += difference
        if not self._counts[principal]:
            del self._counts[principal]
        if self._counts[principal] >= self.peer_bytes:
            self.full.add(principal)
        else:
            self.full.discard(principal)

    def bytes_of(self, principal: str) -> int:
        """What a principal has brought that is not verified."""
        return self._counts[principal]

    def unfinished(self) -> list[UnfinishedPayload]:
        """All payloads of which there are parts, oldest first."""
        return self._read(
            "SELECT public_key, log_id, p.seq_num, ifnull(sum(bytes), 0) "
            "FROM payloads p JOIN logs USING (log) LEFT JOIN spooled USING (log, seq_num) "
            f"WHERE is_held = {IN_PARTS} GROUP BY payload ORDER BY payload"
        )

    def untouched(self, seconds: int) -> list[UnfinishedPayload]:
        """Payloads of which nobody has brought a further byte for so long, oldest first."""
        before = int(self._clock_s()) - seconds
        return self._read(_BROUGHT.format("GROUP BY log, seq_num HAVING max(touched_at) <= ?"), before)

    def of(self, principal: str) -> list[UnfinishedPayload]:
        """Payloads of which a principal has brought parts, and their bytes that it brought; oldest first."""
        return self._read(_BROUGHT.format("WHERE principal = ? GROUP BY log, seq_num"), principal)

    def _read(self, query: str, *given: int | str) -> list[UnfinishedPayload]:
        return [
            UnfinishedPayload(
                (public_key, int.from_bytes(log_id, "big")), int.from_bytes(seq_num, "big"), size
            )
            for public_key, log_id, seq_num, size in self._database.execute(query, given).fetchall()
        ]
