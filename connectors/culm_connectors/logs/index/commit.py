"""One write transaction of the index: entries that extend their logs, and the offsets that cover them.

A plain commit only extends logs: held entries are skipped; entries that contradict a held entry or are above
a gap are reported and left out. An authoritative commit (of `logs`) may also correct: it cuts the log back to
the last entry on which both agree and goes on with the authoritative entry.

The bytes of entries and operations that each author and each peer uses are counted in the same transaction.
An author uses what its logs hold, a peer (the key of a connection) what it was the first to send here;
entries from Kafka count for their author alone. The peers are stored as runs of one log's entries, so that it
is known whose bytes to give back when a log is cut back or forgotten.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from culm_connectors.logs.index import layout
from culm_connectors.logs.index.documents import DocumentWriter, ReadFacts
from culm_connectors.logs.index.errors import IndexDamaged
from culm_connectors.logs.index.layout import LogRow
from culm_models.bamboo import hash_bytes
from culm_models.bamboo.checks import SoundEntry
from culm_models.bamboo.log_store import LogKey
from culm_topics.records import LOG_KEY_SIZE, log_key

_AUTHOR, _PEER = b"\x00", b"\x01"


class _Run(NamedTuple):
    """Consecutive entries of a log that one peer sent: first and last sequence number."""

    first: int
    last: int
    peer_id: bytes


def author_name(public_key: bytes) -> bytes:
    """Return the key of an author in `usage`."""
    return _AUTHOR + public_key


def peer_name(peer_id: bytes) -> bytes:
    """Return the key of a peer in `usage`."""
    return _PEER + peer_id


def read_usage(transaction: Any, databases: Mapping[bytes, Any], name: bytes) -> int:
    """Return the number of bytes that an author or a peer uses. Raises `IndexDamaged`."""
    value = transaction.get(name, db=databases[b"usage"])
    if value is None:
        return 0
    if len(value) != layout.U64.size:
        raise IndexDamaged(f"malformed usage of {name.hex()}")
    return int(layout.U64.unpack(value)[0])


@dataclass(slots=True)
class UsageWriter:
    """Changes of usage in one open write transaction; `finish` writes them."""

    transaction: Any
    databases: Mapping[bytes, Any]
    _changes: Counter[bytes] = field(default_factory=Counter)

    def added(self, key: bytes, seq_num: int, size: int, brought_by: bytes | None) -> None:
        """Count an entry that was appended to a log (40-byte key)."""
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
        """Uncount removed entries, the last ones of a log: their sizes in bytes, by sequence number."""
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
        """Write the changes."""
        for name, change in self._changes.items():
            # If entries were damaged, the bytes given back are not always the bytes that were counted.
            total = max(0, read_usage(self.transaction, self.databases, name) + change)
            if total:
                self.transaction.put(name, layout.U64.pack(total), db=self.databases[b"usage"])
            else:
                self.transaction.delete(name, db=self.databases[b"usage"])
        self._changes.clear()

    def _run_at(self, key: bytes, seq_num: int) -> _Run | None:
        """Return the last run of a log that begins at or before a sequence number."""
        run_key = key + layout.U64.pack(seq_num)
        with self.transaction.cursor(db=self.databases[b"brought"]) as cursor:
            has_run = (
                cursor.last() if not cursor.set_range(run_key) else cursor.key() == run_key or cursor.prev()
            )
            if not has_run or not cursor.key().startswith(key):
                return None
            first, value = cursor.key()[LOG_KEY_SIZE:], cursor.value()
        if len(value) <= layout.U64.size:
            raise IndexDamaged(f"malformed run of entries {run_key.hex()}")
        size = layout.U64.size
        return _Run(layout.U64.unpack(first)[0], layout.U64.unpack(value[:size])[0], value[size:])

    def _put_run(self, key: bytes, run: _Run) -> None:
        value = layout.U64.pack(run.last) + run.peer_id
        self.transaction.put(key + layout.U64.pack(run.first), value, db=self.databases[b"brought"])


Offsets = Mapping[tuple[str, int], int]


@dataclass(frozen=True, slots=True)
class Commit:
    """Result of one write transaction; pass it to `LmdbLogStore.adopt` on the thread that reads."""

    stored: tuple[SoundEntry, ...]
    conflicts: tuple[SoundEntry, ...]
    gaps: tuple[SoundEntry, ...]
    truncated: tuple[tuple[LogKey, int], ...]
    """(log, first sequence number that was removed) of every log that was cut back."""
    rows: Mapping[bytes, LogRow | None]
    schema_numbers: Mapping[str, int]
    unsettled: bool = False
    """Logs whose document is known by now wait for another commit, which may be empty."""


@dataclass(slots=True)
class TransactionState:
    """The state of one write transaction while entries are put into it."""

    transaction: Any
    databases: Mapping[bytes, Any]
    known_schemas: Mapping[str, int]
    read_facts: ReadFacts
    rows: dict[bytes, LogRow | None] = field(default_factory=dict)
    new_schemas: dict[str, int] = field(default_factory=dict)
    stored: list[SoundEntry] = field(default_factory=list)
    conflicts: list[SoundEntry] = field(default_factory=list)
    gaps: list[SoundEntry] = field(default_factory=list)
    truncated: list[tuple[LogKey, int]] = field(default_factory=list)
    documents: DocumentWriter = field(init=False)
    usage: UsageWriter = field(init=False)

    def __post_init__(self) -> None:
        self.documents = DocumentWriter(self.transaction, self.databases, self.rows, self.read_facts)
        self.usage = UsageWriter(self.transaction, self.databases)

    def run(
        self,
        entries: Sequence[SoundEntry],
        offsets: Offsets,
        *,
        truth: bool,
        brought_by: Sequence[bytes] = (),
    ) -> Commit:
        """Put entries and offsets; the caller's transaction makes them durable together.

        `brought_by`: the peer that sent each of the entries; empty if they come from Kafka.
        """
        for checked, peer_id in itertools.zip_longest(entries, brought_by):
            self._put(checked, peer_id, truth=truth)
        unsettled = self.documents.settle_what_is_due()
        self.usage.finish()
        for key, row in self.rows.items():
            self._write_row(key, row)
        for (topic, partition), offset in offsets.items():
            self._db_put(b"meta", layout.offset_key(topic, partition), layout.U64.pack(offset))
        return Commit(
            stored=tuple(self.stored),
            conflicts=tuple(self.conflicts),
            gaps=tuple(self.gaps),
            truncated=tuple(self.truncated),
            rows=self.rows,
            schema_numbers=self.new_schemas,
            unsettled=unsettled,
        )

    def _held(self, key: bytes, seq_num: int) -> bytes:
        """Return the value of an entry at or below its log's height.

        Raises `IndexDamaged` if it is missing.
        """
        value = self._db_get(b"entries", key + layout.U64.pack(seq_num))
        if value is None:
            raise IndexDamaged(f"entry {seq_num} of log {key.hex()} is below its height and missing")
        return value

    def _db_get(self, database: bytes, key: bytes) -> bytes | None:
        value: bytes | None = self.transaction.get(key, db=self.databases[database])
        return value

    def _db_put(self, database: bytes, key: bytes, value: bytes) -> None:
        self.transaction.put(key, value, db=self.databases[database])

    def _db_delete(self, database: bytes, key: bytes) -> None:
        self.transaction.delete(key, db=self.databases[database])

    def _put(self, checked: SoundEntry, brought_by: bytes | None, *, truth: bool) -> None:
        entry = checked.entry
        key = log_key(entry.public_key, entry.log_id)
        row = self.documents.row(key)
        height = row.height if row else 0
        if entry.seq_num <= height:
            stored_entry = self._held(key, entry.seq_num)
            if layout.unpack_entry(stored_entry)[0] == checked.entry_bytes:
                return
            if not truth:
                self.conflicts.append(checked)
                return
            row = self._truncate(key, checked.log, entry.seq_num)
            height = entry.seq_num - 1
        if entry.seq_num != height + 1:
            self.gaps.append(checked)
            return
        if row is not None and entry.backlink != row.head_hash:
            # The next entry of another branch: only `logs` decides which of the two stays.
            (self.gaps if truth else self.conflicts).append(checked)
            return
        self._append(key, row, checked)
        self.usage.added(key, entry.seq_num, checked.size_bytes, brought_by)

    def _append(self, key: bytes, row: LogRow | None, checked: SoundEntry) -> None:
        entry = checked.entry
        number = row.schema_number if row else self._schema_number(checked.schema_id)
        value = layout.pack_entry(checked.entry_bytes, checked.payload_bytes)
        self._db_put(b"entries", key + layout.U64.pack(entry.seq_num), value)
        document_id, first_delete = (row.document_id, row.first_delete) if row else (None, 0)
        grown = LogRow(entry.seq_num, number, entry.end_of_log, checked.hash, document_id, first_delete)
        self.documents.append(key, grown, checked.facts)
        self.stored.append(checked)

    def _schema_number(self, schema_id: str) -> int:
        for known in (self.known_schemas, self.new_schemas):
            number = known.get(schema_id)
            if number is not None:
                return number
        number = len(self.known_schemas) + len(self.new_schemas)
        self.new_schemas[schema_id] = number
        self._db_put(b"schemas", layout.U32.pack(number), schema_id.encode())
        return number

    def _truncate(self, key: bytes, log: LogKey, first: int) -> LogRow | None:
        """Remove the entries from `first` on; returns the row of the rest, or None if nothing is left."""
        row = self.documents.row(key)
        assert row is not None and first <= row.height, "nothing to cut"
        sizes: dict[int, int] = {}
        for seq_num in range(first, row.height + 1):
            value = self._held(key, seq_num)
            self.documents.remove(hash_bytes(layout.unpack_entry(value)[0]))
            self._db_delete(b"entries", key + layout.U64.pack(seq_num))
            sizes[seq_num] = layout.stored_size(value)
        self.usage.removed(key, sizes)
        self.stored = [kept for kept in self.stored if kept.log != log or kept.entry.seq_num < first]
        self.truncated.append((log, first))
        row = self.documents.cut(key, row, first - 1)
        left: LogRow | None = None
        if first > 1:
            head = hash_bytes(layout.unpack_entry(self._held(key, first - 1))[0])
            left = row._replace(height=first - 1, end_of_log=False, head_hash=head)
        if left is None:
            self._db_delete(b"sync_range", layout.U32.pack(row.schema_number) + key)
        self.rows[key] = left
        return left

    def _write_row(self, key: bytes, row: LogRow | None) -> None:
        if row is None:
            self._db_delete(b"logs", key)
            return
        self._db_put(b"logs", key, layout.pack_row(row))
        self._db_put(b"sync_range", layout.U32.pack(row.schema_number) + key, layout.U64.pack(row.height))
