"""Shards and spaces that a folder refuses (R33)."""

from __future__ import annotations

import sqlite3

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.errors import Blocked


class BlockedKeys:
    """The table of blocked keys: the bytes of a shard's CID, or a space, each with a reason."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def set(self, key: bytes, reason: str | None) -> None:
        """Block a key; a reason of None unblocks it. The caller has begun a transaction."""
        if reason is None:
            self._database.execute("DELETE FROM blocked WHERE key = ?", (key,))
        else:
            self._database.execute("INSERT OR REPLACE INTO blocked VALUES (?, ?)", (key, reason))

    def reason(self, key: bytes) -> str | None:
        """Return why a key is blocked; None if it is not."""
        row = self._database.execute("SELECT reason FROM blocked WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def require_open(self, space: bytes | None, shard: Cid) -> None:
        """Raise `Blocked` if a shard or its space is blocked."""
        keys = (shard.raw,) if space is None else (shard.raw, space)
        if any(self.reason(key) is not None for key in keys):
            raise Blocked(f"{shard} or its space is blocked here")
