"""Entries in a row, with their payloads, in few statements: most of a transfer."""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

from culm_connectors.bamboo_p2p.store.payload_chunks import PART_BYTES
from culm_connectors.bamboo_p2p.store.tables import HELD, number_key
from culm_models.bamboo_p2p.store import VerifiedEntry

_ROWS_MAX: Final = 128


def insert_verified(
    database: sqlite3.Connection, log: int, verified: Sequence[VerifiedEntry], now_s: int
) -> None:
    """Put in entries of a log, and payloads of which nothing is there."""
    _insert(
        database,
        "INSERT OR IGNORE INTO entries",
        [
            (log, number_key(held.entry.seq_num), held.entry_bytes, held.entry.end_of_log)
            for held, _ in verified
        ],
    )
    first = database.execute("SELECT ifnull(max(payload), 0) + 1 FROM payloads").fetchone()[0]
    payloads = [(held, payload) for held, payload in verified if payload is not None]
    _insert(
        database,
        "INSERT INTO payloads (payload, log, seq_num, is_held, size, held_at)",
        [
            (row, log, number_key(held.entry.seq_num), HELD, len(payload), now_s)
            for row, (held, payload) in enumerate(payloads, first)
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
    """Put in rows, many by one statement.

    The interpreter lock is let go for each statement that is run, and a busy event loop gives it back late.
    """
    at = 0
    while at < len(rows):
        # Powers of two, so that few statements are ever made and all of them stay prepared.
        count = min(1 << (len(rows) - at).bit_length() - 1, _ROWS_MAX)
        row = f"({', '.join('?' * len(rows[at]))})"
        values = [value for one in rows[at : at + count] for value in one]
        database.execute(f"{statement} VALUES {', '.join([row] * count)}", values)
        at += count


def read_held(
    database: sqlite3.Connection, log: int, first: int, last: int, most_bytes: int
) -> Iterator[tuple[int, bytes, bytes]]:
    """Sequence numbers, entries, payloads; ends before the first that is not there or is too large."""
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
