"""What is known of one log of a folder without looking at its rows: which entries and payloads are there."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field

from culm_connectors.bamboo_p2p.store.tables import DROPPED, HELD
from culm_models.bamboo.range_set import RangeSet


@dataclass(slots=True)
class KeptLog:
    """One log. `row` is its number in the tables; `parts` are payloads that are not verified yet.

    `dropped` are payloads that were here, and are not wanted again; `payload_bytes` counts those held.
    """

    row: int
    entries: RangeSet = field(default_factory=RangeSet)
    payloads: RangeSet = field(default_factory=RangeSet)
    dropped: RangeSet = field(default_factory=RangeSet)
    payload_bytes: int = 0
    parts: dict[int, RangeSet] = field(default_factory=dict)
    end_of_log: int | None = None
    fork: tuple[bytes, bytes] | None = None


def read_kept_log(database: sqlite3.Connection, row: int) -> KeptLog:
    """The log as the tables have it now."""
    log = KeptLog(row)
    one, other = database.execute("SELECT fork_one, fork_other FROM logs WHERE log = ?", (row,)).fetchone()
    log.fork = (one, other) if one is not None else None
    query = "SELECT seq_num, ends_log FROM entries WHERE log = ? ORDER BY seq_num"
    for key, ends_log in database.execute(query, (row,)):
        seq_num = int.from_bytes(key, "big")
        log.entries.add(seq_num, seq_num + 1)
        if ends_log:
            log.end_of_log = seq_num
    query = "SELECT payload, seq_num, is_held, size FROM payloads WHERE log = ? ORDER BY seq_num"
    for payload, key, is_held, size in database.execute(query, (row,)).fetchall():
        seq_num = int.from_bytes(key, "big")
        if is_held == HELD:
            log.payloads.add(seq_num, seq_num + 1)
            log.payload_bytes += size
            continue
        if is_held == DROPPED:
            log.dropped.add(seq_num, seq_num + 1)
            continue
        held = log.parts[seq_num] = RangeSet()
        query = "SELECT offset, length(data) FROM parts WHERE payload = ? ORDER BY offset"
        for offset, length in database.execute(query, (payload,)):
            held.add(offset, offset + length)
    return log
