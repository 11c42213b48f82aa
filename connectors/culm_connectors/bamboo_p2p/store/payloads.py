"""The bytes of payloads in a folder, in parts as they arrived. Parts of one payload never overlap.

Consecutive entries are written and read together with their payloads, in few statements; this is the most
frequent case of a transfer.
"""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

from culm_connectors.bamboo_p2p.store.tables import DROPPED, HELD, IN_PARTS, number_key
from culm_models.bamboo.hashes import Hasher, HashFlavour
from culm_models.bamboo.range_set import RangeSet
from culm_models.bamboo_p2p.store import VerifiedEntry

PART_BYTES: Final = 256 * 1024
"""Largest part, which bounds the memory for reading a payload."""


_ROWS_MAX: Final = 128


class PayloadParts:
    """Rows of `payloads` and `parts`. A payload that arrives in order is hashed as it arrives."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._digests: dict[int, tuple[Hasher, int]] = {}
        """By row of the payload: the hasher and the number of hashed bytes."""

    def row(self, log: int, seq_num: int) -> int | None:
        """Return the row number of a payload, or None. Later payloads have higher numbers."""
        query = "SELECT payload FROM payloads WHERE log = ? AND seq_num = ?"
        payload = self._database.execute(query, (log, number_key(seq_num))).fetchone()
        return payload[0] if payload else None

    def put(
        self, log: int, seq_num: int, offset: int, data: bytes, there: RangeSet, flavour: HashFlavour
    ) -> None:
        """Store bytes at an offset. `there` has the ranges that are stored already."""
        payload = self._made(log, seq_num)
        end = offset + len(data)
        following = there.next_member(offset)
        replaces = following is not None and following < end
        if replaces:
            self._clear(payload, offset, end)
        hasher, hashed = self._digests.get(payload) or (flavour.hasher(b""), 0)
        if replaces and offset < hashed:
            self._digests.pop(payload, None)
        elif offset == hashed:
            hasher.update(data)
            self._digests[payload] = (hasher, end)
        for start in range(0, len(data), PART_BYTES):
            self._insert(payload, offset + start, data[start : start + PART_BYTES])

    def read(self, log: int, seq_num: int, offset: int, length: int) -> bytes:
        """Return bytes from an offset on, as many as there are without a gap."""
        payload = self.row(log, seq_num)
        if payload is None:
            return b""
        query = (
            "SELECT offset, data FROM parts WHERE payload = ? AND offset < ? AND offset >= ifnull("
            "(SELECT max(offset) FROM parts WHERE payload = ? AND offset <= ?), 0) ORDER BY offset"
        )
        out = bytearray()
        for start, data in self._database.execute(query, (payload, offset + length, payload, offset)):
            at = offset + len(out)
            if not start <= at < start + len(data):
                break
            out += data[at - start : offset + length - start]
        return bytes(out)

    def digest(self, log: int, seq_num: int, size: int, flavour: HashFlavour) -> bytes:
        """Return the hash of the first `size` bytes. Only bytes that were not hashed on arrival are read."""
        payload = self._made(log, seq_num)
        hasher, hashed = self._digests.get(payload) or (flavour.hasher(b""), 0)
        self._digests.pop(payload, None)
        while hashed < size and (data := self.read(log, seq_num, hashed, min(PART_BYTES, size - hashed))):
            hasher.update(data)
            hashed += len(data)
        return flavour.prefix + hasher.digest()

    def hold(self, log: int, seq_num: int, size: int, now_s: int) -> None:
        """Mark the payload as complete and verified."""
        query = "UPDATE payloads SET is_held = ?, size = ?, held_at = ? WHERE log = ? AND seq_num = ?"
        self._database.execute(query, (HELD, size, now_s, log, number_key(seq_num)))

    def mark(self, log: int, seq_num: int, *, is_dropped: bool) -> None:
        """Mark a payload without bytes as dropped, or remove the mark."""
        query = "UPDATE payloads SET is_held = ? WHERE log = ? AND seq_num = ?"
        self._made(log, seq_num)
        self._database.execute(query, (DROPPED if is_dropped else IN_PARTS, log, number_key(seq_num)))

    def oldest_held(self, count: int) -> list[tuple[int, int, int, int]]:
        """Return the payloads held longest: (log's row, sequence number, size in bytes, held since in s)."""
        query = (
            "SELECT log, seq_num, size, held_at FROM payloads WHERE is_held = 1 "
            "ORDER BY held_at, payload LIMIT ?"
        )
        rows = self._database.execute(query, (count,)).fetchall()
        return [(log, int.from_bytes(key, "big"), size, held_at) for log, key, size, held_at in rows]

    def discard(self, log: int, seq_num: int) -> None:
        """Delete all rows of a payload."""
        payload = self.row(log, seq_num)
        if payload is not None:
            self._digests.pop(payload, None)
            self._database.execute("DELETE FROM parts WHERE payload = ?", (payload,))
            self._database.execute("DELETE FROM payloads WHERE payload = ?", (payload,))

    def forget_digests(self) -> None:
        """Discard the hashes of partial payloads, whose parts may have changed."""
        self._digests.clear()

    def _made(self, log: int, seq_num: int) -> int:
        query = "INSERT OR IGNORE INTO payloads (log, seq_num, is_held) VALUES (?, ?, ?)"
        self._database.execute(query, (log, number_key(seq_num), IN_PARTS))
        payload = self.row(log, seq_num)
        assert payload is not None, "it was just made"
        return payload

    def _clear(self, payload: int, start: int, end: int) -> None:
        """Cut the bytes from `start` to before `end` out of the parts."""
        query = (
            "SELECT part, offset, data FROM parts "
            "WHERE payload = ? AND offset < ? AND offset + length(data) > ?"
        )
        for part, offset, data in self._database.execute(query, (payload, end, start)).fetchall():
            self._database.execute("DELETE FROM parts WHERE part = ?", (part,))
            self._insert(payload, offset, data[: max(0, start - offset)])
            self._insert(payload, end, data[max(0, end - offset) :])

    def _insert(self, payload: int, offset: int, data: bytes) -> None:
        if data:
            query = "INSERT OR REPLACE INTO parts (payload, offset, data) VALUES (?, ?, ?)"
            self._database.execute(query, (payload, offset, data))


def insert_verified(
    database: sqlite3.Connection, log: int, verified: Sequence[VerifiedEntry], now_s: int
) -> None:
    """Insert entries of a log, and payloads of which no part is stored."""
    _insert(
        database,
        "INSERT OR IGNORE INTO entries",
        [
            (log, number_key(stored.entry.seq_num), stored.entry_bytes, stored.entry.end_of_log)
            for stored, _ in verified
        ],
    )
    first = database.execute("SELECT ifnull(max(payload), 0) + 1 FROM payloads").fetchone()[0]
    payloads = [(stored, payload) for stored, payload in verified if payload is not None]
    _insert(
        database,
        "INSERT INTO payloads (payload, log, seq_num, is_held, size, held_at)",
        [
            (row, log, number_key(stored.entry.seq_num), HELD, len(payload), now_s)
            for row, (stored, payload) in enumerate(payloads, first)
        ],
    )
    _insert(
        database,
        "INSERT INTO parts (payload, offset, data)",
        [
            (row, offset, payload[offset : offset + PART_BYTES])
            for row, (_, payload) in enumerate(payloads, first)
            for offset in range(0, len(payload), PART_BYTES)
        ],
    )


def _insert(database: sqlite3.Connection, statement: str, rows: Sequence[Sequence[object]]) -> None:
    """Insert rows, many with one statement.

    Each statement releases the interpreter lock, and a busy event loop returns it late.
    """
    at = 0
    while at < len(rows):
        # Powers of two, so that there are few different statements and all of them stay prepared.
        count = min(1 << (len(rows) - at).bit_length() - 1, _ROWS_MAX)
        row = f"({', '.join('?' * len(rows[at]))})"
        values = [value for values_of_row in rows[at : at + count] for value in values_of_row]
        database.execute(f"{statement} VALUES {', '.join([row] * count)}", values)
        at += count


def read_held(
    database: sqlite3.Connection, log: int, first: int, last: int, most_bytes: int
) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield (sequence number, entry, payload), up to the first one that is not held or would be too large."""
    query = (
        "SELECT entries.seq_num, entry, size, data FROM entries JOIN payloads USING (log, seq_num) "
        "LEFT JOIN parts USING (payload) WHERE log = ? AND entries.seq_num BETWEEN ? AND ? "
        "AND is_held = ? AND size <= ? ORDER BY entries.seq_num, offset"
    )
    rows = database.execute(query, (log, number_key(first), number_key(last), HELD, most_bytes))
    parts: deque[bytes] = deque()
    expected = first
    for key, entry_bytes, size, data in rows:
        if int.from_bytes(key, "big") != expected or size > most_bytes:
            return
        if data is not None:
            parts.append(data)
        if sum(map(len, parts)) < size:
            continue
        yield expected, entry_bytes, parts[0] if len(parts) == 1 else b"".join(parts)
        most_bytes -= size
        expected += 1
        parts.clear()
