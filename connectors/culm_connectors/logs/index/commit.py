"""One write transaction of the index: entries that extend their logs, and the offsets that cover them.

A plain commit only extends logs; what is held already is skipped, what contradicts a held entry or stands
above a gap is reported and left out. A commit of the truth (`logs`) may also correct: it cuts the log back
to where the two agree and goes on with the true entry.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from culm_connectors.logs.index import layout
from culm_connectors.logs.index.documents import DocumentWriter, ReadFacts
from culm_connectors.logs.index.errors import IndexDamaged
from culm_connectors.logs.index.layout import LogRow
from culm_connectors.logs.index.usage import UsageWriter
from culm_models.bamboo import hash_bytes
from culm_models.bamboo.checks import SoundEntry

Offsets = Mapping[tuple[str, int], int]


@dataclass(frozen=True, slots=True)
class Commit:
    """What one write transaction did; hand it to `LmdbLogStore.adopt` on the thread that reads."""

    stored: tuple[SoundEntry, ...]
    conflicts: tuple[SoundEntry, ...]
    gaps: tuple[SoundEntry, ...]
    truncated: tuple[tuple[bytes, int], ...]
    """(log key, first sequence number that was removed) of every log that was cut back."""
    rows: Mapping[bytes, LogRow | None]
    schema_numbers: Mapping[str, int]
    unsettled: bool = False
    """Logs whose document is known by now wait for another commit, be it an empty one."""


@dataclass(slots=True)
class Writer:
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
    truncated: list[tuple[bytes, int]] = field(default_factory=list)
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
        """Put everything; the caller's transaction makes it durable as one.

        `brought_by`: the peer that brought each of the entries; none where they come from Kafka.
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
        """What is stored of an entry at or below its log's height. Raises IndexDamaged where nothing is."""
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
        key = layout.log_key(entry.public_key, entry.log_id)
        row = self.documents.row(key)
        height = row.height if row else 0
        if entry.seq_num <= height:
            held = self._held(key, entry.seq_num)
            if layout.unpack_entry(held)[0] == checked.entry_bytes:
                return
            if not truth:
                self.conflicts.append(checked)
                return
            row = self._truncate(key, entry.seq_num)
            height = entry.seq_num - 1
        if entry.seq_num != height + 1:
            self.gaps.append(checked)
            return
        if row is not None and entry.backlink != row.head_hash:
            # The next entry of another branch: only the truth can say which of the two stays.
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

    def _truncate(self, key: bytes, first: int) -> LogRow | None:
        """Remove the entries from `first` on; returns the row of what is left."""
        row = self.documents.row(key)
        assert row is not None and first <= row.height, "nothing to cut"
        sizes: dict[int, int] = {}
        for seq_num in range(first, row.height + 1):
            value = self._held(key, seq_num)
            self.documents.remove(hash_bytes(layout.unpack_entry(value)[0]))
            self._db_delete(b"entries", key + layout.U64.pack(seq_num))
            sizes[seq_num] = layout.stored_size(value)
        self.usage.removed(key, sizes)
        self.stored = [
            kept for kept in self.stored if layout.log_key(*kept.log) != key or kept.entry.seq_num < first
        ]
        self.truncated.append((key, first))
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


def write_commit(
    transaction: Any,
    databases: Mapping[bytes, Any],
    known_schemas: Mapping[str, int],
    entries: Iterable[SoundEntry],
    offsets: Offsets,
    read_facts: ReadFacts,
    *,
    truth: bool,
    brought_by: Sequence[bytes] = (),
) -> Commit:
    """Put entries and offsets into an open write transaction; see `Writer.run`."""
    writer = Writer(transaction, databases, known_schemas, read_facts)
    return writer.run(tuple(entries), offsets, truth=truth, brought_by=brought_by)
