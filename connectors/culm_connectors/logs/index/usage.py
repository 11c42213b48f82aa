"""How many bytes of entries and operations each author and each peer takes, kept up with every commit.

An author takes what its logs hold, a peer (the key of a connection) what it brought here first; what came
from Kafka counts for its author alone. Who brought what is kept in runs of one log's entries, so that it is
known whose bytes are given back when a log is cut back or forgotten.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from culm_connectors.logs.index import layout
from culm_connectors.logs.index.errors import IndexDamaged

_AUTHOR, _PEER = b"\x00", b"\x01"


class _Run(NamedTuple):
    """Entries of a log that one peer brought, one after the other: the first and the last of them."""

    first: int
    last: int
    peer_id: bytes


def author_name(public_key: bytes) -> bytes:
    """The key of an author in `usage`."""
    return _AUTHOR + public_key


def peer_name(peer_id: bytes) -> bytes:
    """The key of a peer in `usage`."""
    return _PEER + peer_id


def read_usage(transaction: Any, databases: Mapping[bytes, Any], name: bytes) -> int:
    """How many bytes an author or a peer takes. Raises IndexDamaged."""
    value = transaction.get(name, db=databases[b"usage"])
    if value is None:
        return 0
    if len(value) != layout.U64.size:
        raise IndexDamaged(f"usage {name.hex()} is none of ours")
    return int(layout.U64.unpack(value)[0])


@dataclass(slots=True)
class UsageWriter:
    """The changes of one open write transaction; `finish` writes them."""

    transaction: Any
    databases: Mapping[bytes, Any]
    _changes: Counter[bytes] = field(default_factory=Counter)

    def added(self, key: bytes, seq_num: int, size: int, brought_by: bytes | None) -> None:
        """An entry was put at the end of a log (40-byte key)."""
        self._changes[author_name(key[:32])] += size
        if brought_by is None:
            return
        self._changes[peer_name(brought_by)] += size
        before = self._run_at(key, seq_num)
        if before is not None and (before.last, before.peer_id) == (seq_num - 1, brought_by):
            self._put_run(key, before._replace(last=seq_num))
        else:
            self._put_run(key, _Run(seq_num, seq_num, brought_by))

    def removed(self, key: bytes, sizes: Mapping[int, int]) -> None:
        """All entries of a log from some number on were removed: their sizes, by sequence number."""
        if not sizes:
            return
        self._changes[author_name(key[:32])] -= sum(sizes.values())
        first, last = min(sizes), max(sizes)
        # From the end: the last run that begins at or before the end is the next one to look at.
        while (run := self._run_at(key, layout.MAX_SEQ_NUM)) is not None and run.last >= first:
            self.transaction.delete(key + layout.U64.pack(run.first), db=self.databases[b"brought"])
            kept = max(run.first, first)
            given_back = sum(sizes.get(seq_num, 0) for seq_num in range(kept, min(run.last, last) + 1))
            self._changes[peer_name(run.peer_id)] -= given_back
            if run.first < first:
                self._put_run(key, run._replace(last=first - 1))

    def finish(self) -> None:
        """Write what has changed."""
        for name, change in self._changes.items():
            # Where entries were damaged, what is given back is not always what was taken.
            total = max(0, read_usage(self.transaction, self.databases, name) + change)
            if total:
                self.transaction.put(name, layout.U64.pack(total), db=self.databases[b"usage"])
            else:
                self.transaction.delete(name, db=self.databases[b"usage"])
        self._changes.clear()

    def _run_at(self, key: bytes, seq_num: int) -> _Run | None:
        """The last run of a log that begins at or before a number."""
        place = key + layout.U64.pack(seq_num)
        with self.transaction.cursor(db=self.databases[b"brought"]) as cursor:
            found = cursor.last() if not cursor.set_range(place) else cursor.key() == place or cursor.prev()
            if not found or not cursor.key().startswith(key):
                return None
            first, value = cursor.key()[layout.LOG_KEY_SIZE :], cursor.value()
        if len(value) <= layout.U64.size:
            raise IndexDamaged(f"who brought {place.hex()} is none of ours")
        size = layout.U64.size
        return _Run(layout.U64.unpack(first)[0], layout.U64.unpack(value[:size])[0], value[size:])

    def _put_run(self, key: bytes, run: _Run) -> None:
        value = layout.U64.pack(run.last) + run.peer_id
        self.transaction.put(key + layout.U64.pack(run.first), value, db=self.databases[b"brought"])
