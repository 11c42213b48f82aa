"""All logs of a folder as they are known, transactions over them, and what other processes do meanwhile."""

from __future__ import annotations

import sqlite3

from culm_connectors.bamboo_p2p.store.kept_log import KeptLog, read_kept_logs, write_kept_log
from culm_connectors.bamboo_p2p.store.tables import number_key
from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo_p2p.connection import Changes


class KeptLogs:
    """Logs by name. A transaction begins with what others have committed, and ends with what changed."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._version = self._data_version()
        self._changed: set[KeptLog] = set()
        self._others_changed: tuple[list[tuple[LogKey, int]], list[LogKey]] = ([], [])
        """Of what others committed, what `refresh` has not told yet: entries, and forked logs."""
        self.by_name: dict[LogKey, KeptLog] = {}
        self.spooled_bytes = 0
        """Bytes of payloads that are there without being verified."""
        self.load()

    def load(self) -> None:
        """Read everything again."""
        self.by_name = read_kept_logs(self._database)
        self._changed.clear()
        self.spooled_bytes = sum(parts.count for log in self.by_name.values() for parts in log.parts.values())

    def begin(self) -> bool:
        """Begin a transaction where there is none; whether others had committed something before."""
        if self._database.in_transaction:
            return False
        self._database.execute("BEGIN IMMEDIATE")
        return self.catch_up()

    def commit(self) -> bool:
        """Make what was put in survive a crash of this process; whether there was anything."""
        if not self._database.in_transaction:
            return False
        for log in self._changed:
            write_kept_log(self._database, log)
        self._changed.clear()
        self._database.execute("COMMIT")
        return True

    def to_change(self, log: LogKey) -> KeptLog:
        """A log that this transaction may change; it is made if it is not there."""
        found = self.by_name.get(log)
        if found is None:
            public_key, log_id = log
            name = (public_key, number_key(log_id))
            self._database.execute("INSERT OR IGNORE INTO logs (public_key, log_id) VALUES (?, ?)", name)
            query = "SELECT log FROM logs WHERE public_key = ? AND log_id = ?"
            (row,) = self._database.execute(query, name).fetchone()
            found = self.by_name[log] = KeptLog(row)
        self._changed.add(found)
        return found

    def take_others_changes(self) -> Changes:
        """What others have changed since the last call, as far as it was read."""
        (changed, forked), self._others_changed = self._others_changed, ([], [])
        return Changes(changed, forked=forked)

    def catch_up(self) -> bool:
        """Read again if others have committed something; whether they have."""
        version = self._data_version()
        if version == self._version:
            return False
        self._version = version
        former = self.by_name
        self.load()
        changed, forked = self._others_changed
        for key, log in self.by_name.items():
            before = former.get(key) or KeptLog(log.row)
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
