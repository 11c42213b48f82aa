"""Held entries and payloads as runs of sequence numbers, so that opening a folder does not read every row.

The table `runs` has the runs of each log and kind, from `first` to `last`. They are updated by the additions
and removals of a transaction, in the same transaction, so they stay right when other processes write, too.
"""

from __future__ import annotations

import sqlite3
from enum import IntEnum

from culm_models.bamboo.range_set import RangeSet


class RunKind(IntEnum):
    """Kind of the items in a run."""

    ENTRIES = 0
    PAYLOADS = 1
    DROPPED = 2


class RunChanges:
    """Additions and removals of one transaction in the runs of a log. Later changes override earlier ones."""

    __slots__ = ("added", "removed")

    def __init__(self) -> None:
        self.added, self.removed = RangeSet(), RangeSet()

    def add(self, start: int, end: int) -> None:
        """Add the numbers from `start` to before `end`."""
        self.added.add(start, end)
        self.removed.remove(start, end)

    def remove(self, start: int, end: int) -> None:
        """Remove the numbers from `start` to before `end`."""
        self.removed.add(start, end)
        self.added.remove(start, end)


def read_runs(database: sqlite3.Connection) -> dict[int, dict[RunKind, RangeSet]]:
    """Return all runs, by the log's row and kind."""
    logs: dict[int, dict[RunKind, RangeSet]] = {}
    query = "SELECT log, kind, first, last FROM runs ORDER BY log, kind, first"
    for log, kind, first, last in database.execute(query):
        kinds = logs.setdefault(log, {})
        ranges = kinds.setdefault(RunKind(kind), RangeSet())
        ranges.add(int.from_bytes(first, "big"), int.from_bytes(last, "big") + 1)
    return logs


def write_runs(database: sqlite3.Connection, log: int, kind: RunKind, changes: RunChanges) -> None:
    """Apply changes to the runs of one kind of a log."""
    for start, end in changes.added:
        if _prolonged(database, log, kind, start, end):
            continue
        near = _near(database, log, kind, max(start - 1, 0), end)
        joined = RangeSet()
        for first, behind in (*near, (start, end)):
            joined.add(first, behind)
        _replace(database, log, kind, near, joined)
    for start, end in changes.removed:
        near = _near(database, log, kind, start, end - 1)
        left = RangeSet()
        for first, behind in near:
            left.add(first, behind)
        left.remove(start, end)
        _replace(database, log, kind, near, left)


def _prolonged(database: sqlite3.Connection, log: int, kind: RunKind, start: int, end: int) -> bool:
    """Extend a run in place if the new numbers directly follow it. Returns whether that was possible."""
    query = (
        "UPDATE runs SET last = ?5 WHERE log = ?1 AND kind = ?2 AND last = ?3 AND first = "
        "(SELECT max(first) FROM runs WHERE log = ?1 AND kind = ?2 AND first <= ?4)"
    )
    before, behind, last = (number.to_bytes(8, "big") for number in (start - 1, min(end, 2**64 - 1), end - 1))
    return database.execute(query, (log, kind, before, behind, last)).rowcount == 1


def fill_runs(database: sqlite3.Connection, held_state: int, dropped_state: int) -> None:
    """Create the runs of a folder of an earlier format from its rows."""
    sources = (
        (RunKind.ENTRIES, "SELECT log, seq_num FROM entries ORDER BY log, seq_num"),
        (
            RunKind.PAYLOADS,
            f"SELECT log, seq_num FROM payloads WHERE is_held = {held_state} ORDER BY log, seq_num",
        ),
        (
            RunKind.DROPPED,
            f"SELECT log, seq_num FROM payloads WHERE is_held = {dropped_state} ORDER BY log, seq_num",
        ),
    )
    for kind, query in sources:
        logs: dict[int, RangeSet] = {}
        for log, key in database.execute(query):
            number = int.from_bytes(key, "big")
            logs.setdefault(log, RangeSet()).add(number, number + 1)
        for log, runs in logs.items():
            _replace(database, log, kind, [], runs)


def _near(
    database: sqlite3.Connection, log: int, kind: RunKind, low: int, high: int
) -> list[tuple[int, int]]:
    """Return the runs that overlap `low` to `high`, as (start, end)."""
    query = (
        "SELECT first, last FROM runs WHERE log = ?1 AND kind = ?2 AND first <= ?4 AND last >= ?3 AND first "
        ">= ifnull((SELECT max(first) FROM runs WHERE log = ?1 AND kind = ?2 AND first <= ?3), x'') "
        "ORDER BY first"
    )
    high = min(high, 2**64 - 1)
    rows = database.execute(query, (log, kind, low.to_bytes(8, "big"), high.to_bytes(8, "big"))).fetchall()
    return [(int.from_bytes(first, "big"), int.from_bytes(last, "big") + 1) for first, last in rows]


def _replace(
    database: sqlite3.Connection, log: int, kind: RunKind, former: list[tuple[int, int]], runs: RangeSet
) -> None:
    delete = "DELETE FROM runs WHERE log = ? AND kind = ? AND first = ?"
    database.executemany(delete, [(log, kind, start.to_bytes(8, "big")) for start, _ in former])
    database.executemany(
        "INSERT INTO runs VALUES (?, ?, ?, ?)",
        [(log, kind, start.to_bytes(8, "big"), (end - 1).to_bytes(8, "big")) for start, end in runs],
    )
