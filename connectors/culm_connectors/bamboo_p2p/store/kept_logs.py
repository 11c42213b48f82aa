"""An index of the logs of a folder in memory: held entries, held payloads and unverified parts.

A transaction begins by reading what other processes have committed, and ends by writing the changes.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field

from culm_connectors.bamboo_p2p.store.runs import RunChanges, RunKind, read_runs, write_runs
from culm_connectors.bamboo_p2p.store.tables import IN_PARTS, number_key
from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo.range_set import RangeSet
from culm_models.bamboo_p2p.connection import Changes


@dataclass(slots=True, eq=False)
class KeptLog:
    """One log. `row` is its number in the tables; `parts` has the unverified payloads.

    `dropped` has payloads that were dropped and are not wanted again; `payload_bytes` is the size of the held
    ones. `write_kept_log` writes the changes made by `add` and `remove`.
    """

    row: int
    entries: RangeSet = field(default_factory=RangeSet)
    payloads: RangeSet = field(default_factory=RangeSet)
    dropped: RangeSet = field(default_factory=RangeSet)
    payload_bytes: int = 0
    parts: dict[int, RangeSet] = field(default_factory=dict)
    end_of_log: int | None = None
    fork: tuple[bytes, bytes] | None = None
    changes: dict[RunKind, RunChanges] = field(default_factory=dict)
    is_changed: bool = False

    def ranges(self, kind: RunKind) -> RangeSet:
        """Return the held items of a kind."""
        if kind is RunKind.ENTRIES:
            return self.entries
        return self.payloads if kind is RunKind.PAYLOADS else self.dropped

    def add(self, kind: RunKind, start: int, end: int) -> None:
        """Add the numbers from `start` to before `end`."""
        self.ranges(kind).add(start, end)
        self.changes.setdefault(kind, RunChanges()).add(start, end)

    def remove(self, kind: RunKind, start: int, end: int) -> None:
        """Remove the numbers from `start` to before `end`."""
        self.ranges(kind).remove(start, end)
        self.changes.setdefault(kind, RunChanges()).remove(start, end)

    def count_bytes(self, difference: int) -> None:
        """Change the size of the held payloads by a difference in bytes."""
        self.payload_bytes += difference
        self.is_changed = True

    def ended_at(self, seq_num: int) -> None:
        """Note that this entry ends the log."""
        self.end_of_log = seq_num
        self.is_changed = True


class LogsByName(dict[LogKey, KeptLog]):
    """Logs by author and log id. A log without stored data reads as an empty one, which is not kept."""

    def __missing__(self, log: LogKey) -> KeptLog:
        return KeptLog(0)  # SQLite numbers rows from 1.


def read_kept_logs(database: sqlite3.Connection) -> LogsByName:
    """Read all logs from the tables."""
    runs = read_runs(database)
    logs = LogsByName()
    rows: dict[int, KeptLog] = {}
    query = "SELECT log, public_key, log_id, fork_one, fork_other, payload_bytes, ends_at FROM logs"
    for row, public_key, log_id, first, second, payload_bytes, ends_at in database.execute(query):
        kinds = runs.get(row, {})
        log = logs[public_key, int.from_bytes(log_id, "big")] = rows[row] = KeptLog(
            row,
            kinds.get(RunKind.ENTRIES, RangeSet()),
            kinds.get(RunKind.PAYLOADS, RangeSet()),
            kinds.get(RunKind.DROPPED, RangeSet()),
            payload_bytes,
        )
        log.fork = (first, second) if first is not None else None
        log.end_of_log = int.from_bytes(ends_at, "big") if ends_at is not None else None
    query = "SELECT payload, log, seq_num FROM payloads WHERE is_held = 0"
    assert IN_PARTS == 0, "the index of what is in parts is for this number, written out"
    for payload, row, key in database.execute(query).fetchall():
        parts = rows[row].parts[int.from_bytes(key, "big")] = RangeSet()
        query = "SELECT offset, length(data) FROM parts WHERE payload = ? ORDER BY offset"
        for offset, length in database.execute(query, (payload,)):
            parts.add(offset, offset + length)
    return logs


def write_kept_log(database: sqlite3.Connection, log: KeptLog) -> None:
    """Write the changes of a log, in the transaction that changed the rows."""
    for kind, changes in log.changes.items():
        write_runs(database, log.row, kind, changes)
    log.changes.clear()
    if log.is_changed:
        ends_at = number_key(log.end_of_log) if log.end_of_log is not None else None
        query = "UPDATE logs SET payload_bytes = ?, ends_at = ? WHERE log = ?"
        database.execute(query, (log.payload_bytes, ends_at, log.row))
        log.is_changed = False


class KeptLogs:
    """Logs by author and log id, with their transactions."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._version = self._data_version()
        self._changed: set[KeptLog] = set()
        self._others_changed: tuple[list[tuple[LogKey, int]], list[LogKey]] = ([], [])
        """Others' changes that `take_others_changes` has not returned yet: entries, and forked logs."""
        self.by_name = LogsByName()
        self.spooled_bytes = 0
        """Total size of unverified parts, in bytes."""
        self.load()

    def load(self) -> None:
        """Read everything again."""
        self.by_name = read_kept_logs(self._database)
        self._changed.clear()
        self.spooled_bytes = sum(parts.count for log in self.by_name.values() for parts in log.parts.values())

    def begin(self) -> bool:
        """Begin a transaction unless there is one. Returns whether others' commits were read."""
        if self._database.in_transaction:
            return False
        self._database.execute("BEGIN IMMEDIATE")
        return self.catch_up()

    def commit(self) -> bool:
        """Commit, so that changes survive a crash of the process. Returns whether there was a transaction."""
        if not self._database.in_transaction:
            return False
        for log in self._changed:
            write_kept_log(self._database, log)
        self._changed.clear()
        self._database.execute("COMMIT")
        return True

    def to_change(self, log: LogKey) -> KeptLog:
        """Return a log for changes in this transaction. A missing log is created."""
        kept_log = self.by_name.get(log)
        if kept_log is None:
            public_key, log_id = log
            name = (public_key, number_key(log_id))
            self._database.execute("INSERT OR IGNORE INTO logs (public_key, log_id) VALUES (?, ?)", name)
            query = "SELECT log FROM logs WHERE public_key = ? AND log_id = ?"
            (row,) = self._database.execute(query, name).fetchone()
            kept_log = self.by_name[log] = KeptLog(row)
        self._changed.add(kept_log)
        return kept_log

    def take_others_changes(self) -> Changes:
        """Return the changes by other processes that were read since the last call."""
        (changed, forked), self._others_changed = self._others_changed, ([], [])
        return Changes(changed, forked=forked)

    def catch_up(self) -> bool:
        """Read everything again if other processes have committed. Returns whether they have."""
        version = self._data_version()
        if version == self._version:
            return False
        self._version = version
        former = self.by_name
        self.load()
        changed, forked = self._others_changed
        for key, log in self.by_name.items():
            before = former[key]
            new = log.entries.without(before.entries)
            for start, end in log.payloads.without(before.payloads):
                new.add(start, end)
            changed += [(key, number) for start, end in new for number in range(start, end)]
            if log.fork is not None and before.fork is None:
                forked.append(key)
        return True

    def _data_version(self) -> int:
        version: int = self._database.execute("PRAGMA data_version").fetchone()[0]
        return version
