"""Which entries and payloads a folder holds, as runs of sequence numbers: opening it reads no further rows.

The table `runs` says of each log and kind what is there, from `first` to `last`. It is changed in the
transaction that changes the rows themselves, by what was put in and taken out: whoever else writes, it fits.
"""

from __future__ import annotations

import sqlite3
from enum import IntEnum

from culm_models.bamboo.range_set import RangeSet


class RunKind(IntEnum):
    """Of what there are runs."""

    ENTRIES = 0
    PAYLOADS = 1
    DROPPED = 2


class RunChanges:
    """What one transaction puts into the runs of a log, and takes out; the later of the two holds."""

    __slots__ = ("added", "removed")

    def __init__(self) -> None:
        self.added, self.removed = RangeSet(), RangeSet()

    def add(self, start: int, end: int) -> None:
        """The numbers from `start` up to, without, `end` are there."""
        self.added.add(start, end)
        self.removed.remove(start, end)

    def remove(self, start: int, end: int) -> None:
        """They are not there any more."""
        self.removed.add(start, end)
        self.added.remove(start, end)


def read_runs(database: sqlite3.Connection) -> dict[int, dict[RunKind, RangeSet]]:
    """All runs, by the log's row and what they are of."""
    logs: dict[int, dict[RunKind, RangeSet]] = {}
    query = "SELECT log, kind, first, last FROM runs ORDER BY log, kind, first"
    for log, kind, first, last in database.execute(query):
        kinds = logs.setdefault(log, {})
        found = kinds.setdefault(RunKind(kind), RangeSet())
        found.add(int.from_bytes(first, "big"), int.from_bytes(last, "big") + 1)
    return logs


def write_runs(database: sqlite3.Connection, log: int, kind: RunKind, changes: RunChanges) -> None:
    """Change the runs of one kind of a log."""
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
    """Whether the new numbers follow a run, and touch no other one: then it is as good as written."""
    query = (
        "UPDATE runs SET last = ?5 WHERE log = ?1 AND kind = ?2 AND last = ?3 AND first = "
        "(SELECT max(first) FROM runs WHERE log = ?1 AND kind = ?2 AND first <= ?4)"
    )
    before, behind, last = (number.to_bytes(8, "big") for number in (start - 1, min(end, 2**64 - 1), end - 1))
    return database.execute(query, (log, kind, before, behind, last)).rowcount == 1


def fill_runs(database: sqlite3.Connection, held: int, dropped: int) -> None:
    """Make the runs of a folder of the format before them, from its rows."""
    sources = (
        (RunKind.ENTRIES, "SELECT log, seq_num FROM entries ORDER BY log, seq_num"),
        (RunKind.PAYLOADS, f"SELECT log, seq_num FROM payloads WHERE is_held = {held} ORDER BY log, seq_num"),
        (
            RunKind.DROPPED,
            f"SELECT log, seq_num FROM payloads WHERE is_held = {dropped} ORDER BY log, seq_num",
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
    """The runs that share a number with `low` to `high`, as (start, end)."""
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
