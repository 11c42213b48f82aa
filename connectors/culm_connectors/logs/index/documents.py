"""Documents of logs: determined while entries are written, and the queries about them.

A log belongs to the document of the operations that its first entry follows. Kafka gives no order across
logs, so these operations may arrive later than the log, or be held in logs whose own document is not known
yet. A log then waits for the first of them (`waiting`). It is settled as soon as that operation is held and
the document of its log is known, at whatever distance from the create. The records in `waiting` are hints,
checked against the entries when they are processed: a stale one is harmless. The reader answers from the
places of operations and from the logs and deletes of each document.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from culm_connectors.local_store.lmdb_file import LmdbFile
from culm_connectors.logs.index import layout
from culm_connectors.logs.index.errors import IndexConflict
from culm_connectors.logs.index.layout import LogRow, Place, RowCache
from culm_models.bamboo.checks import PayloadFacts
from culm_models.bamboo.log_store import LogKey
from culm_topics.records import LOG_KEY_SIZE, log_key, split_log_key

ReadFacts = Callable[[bytes], PayloadFacts]
"""Reads the facts of a payload, by the owner of payloads; raises `CulmError`."""

MAX_SETTLED = 4_096
"""Maximum number of waiting logs that one transaction settles; the others are due in the next one."""
_DUE = b"due:"
_CHUNK_DELETES = 16
_MAX_LOG_ID = 2**64 - 1


@dataclass(slots=True)
class DocumentWriter:
    """The documents of logs in one open write transaction.

    `rows` are the rows that the transaction changes, shared with the writer of entries.
    """

    transaction: Any
    databases: Mapping[bytes, Any]
    rows: dict[bytes, LogRow | None]
    read_facts: ReadFacts
    _due: list[bytes] = field(init=False)
    """Operations that arrived, and logs whose document became known: logs that wait for them are settled."""
    _anyone_waits: bool = field(init=False)

    def __post_init__(self) -> None:
        with self.transaction.cursor(db=self.databases[b"meta"]) as cursor:
            due_keys = itertools.takewhile(
                lambda key: key.startswith(_DUE),
                cursor.iternext(values=False) if cursor.set_range(_DUE) else (),
            )
            self._due = [bytes(key[len(_DUE) :]) for key in due_keys]
        for awaited in self._due:
            self.transaction.delete(_DUE + awaited, db=self.databases[b"meta"])
        self._anyone_waits = self.transaction.stat(self.databases[b"waiting"])["entries"] > 0

    def row(self, key: bytes) -> LogRow | None:
        """Return the row of a log (40-byte key) as it is in this transaction."""
        if key in self.rows:
            return self.rows[key]
        value = self._get(b"logs", key)
        return layout.unpack_row(value) if value is not None else None

    def append(
        self,
        key: bytes,
        row: LogRow,
        facts: PayloadFacts,
    ) -> None:
        """Add the newest entry of a log; `row` has the document as known before."""
        operation = layout.short_hash(row.head_hash)
        self._put(b"operations", operation, layout.pack_place(key, row.height, self.transaction.id()))
        if facts.deletes and not row.first_delete:
            row = row._replace(first_delete=row.height)
            if row.document_id is not None:
                self._put_delete(key, row.document_id, row.first_delete)
        self.rows[key] = row
        if row.height == 1:
            document_id = row.head_hash if facts.previous is None else self._document_of(facts.previous)
            if document_id is not None:
                self._settle(key, row, document_id)
            else:
                self._wait(key, facts.previous or ())
        if self._anyone_waits:
            self._due.append(operation)

    def remove(self, operation_id: bytes) -> None:
        """Forget the operation of an entry that is removed from its log."""
        self.transaction.delete(layout.short_hash(operation_id), db=self.databases[b"operations"])

    def cut(self, key: bytes, row: LogRow, height: int) -> LogRow:
        """Forget what a log cut back to `height` no longer says of its document; returns its new row."""
        if row.first_delete > height:
            if row.document_id is not None:
                delete_key = layout.short_hash(row.document_id) + key
                self.transaction.delete(delete_key, db=self.databases[b"deletes"])
            row = row._replace(first_delete=0)
        if height == 0 and row.document_id is not None:
            self.transaction.delete(
                key[:32] + layout.short_hash(row.document_id), db=self.databases[b"documents"]
            )
        return row

    def settle_what_is_due(self) -> bool:
        """Settle logs whose operations arrived; returns True if logs are left for the next transaction."""
        capacity = MAX_SETTLED
        while self._due and capacity:
            awaited = self._due.pop()
            for key in self._waiting_for(awaited, capacity):
                capacity -= 1
                self.transaction.delete(awaited + key, db=self.databases[b"waiting"])
                self._look_again(key)
            if not capacity:
                self._due.append(awaited)
        for awaited in self._due:
            self._put(b"meta", _DUE + awaited, b"")
        return bool(self._due)

    def _waiting_for(self, awaited: bytes, limit: int) -> list[bytes]:
        size = len(awaited)
        waiting_logs: list[bytes] = []
        with self.transaction.cursor(db=self.databases[b"waiting"]) as cursor:
            if cursor.set_range(awaited):
                for waiting_key in cursor.iternext(values=False):
                    if len(waiting_logs) == limit or waiting_key[:size] != awaited:
                        break
                    if len(waiting_key) == size + LOG_KEY_SIZE:
                        waiting_logs.append(waiting_key[size:])
        return waiting_logs

    def _look_again(self, key: bytes) -> None:
        row = self.row(key)
        first = self._get(b"entries", key + layout.U64.pack(1))
        if row is None or row.document_id is not None or first is None:
            return
        previous = self.read_facts(layout.unpack_entry(first)[1]).previous or ()
        document_id = self._document_of(previous)
        if document_id is not None:
            self._settle(key, row, document_id)
        else:
            self._wait(key, previous)

    def _document_of(self, previous: Iterable[bytes]) -> bytes | None:
        for operation_id in previous:
            held_in = self._log_of(operation_id)
            row = self.row(held_in) if held_in is not None else None
            if row is not None and row.document_id is not None:
                return row.document_id
        return None

    def _settle(self, key: bytes, row: LogRow, document_id: bytes) -> None:
        self.rows[key] = row._replace(document_id=document_id)
        # The first log that an author opened for a document remains the log of that author for it.
        document_key = key[:32] + layout.short_hash(document_id)
        self.transaction.put(document_key, key[32:], overwrite=False, db=self.databases[b"documents"])
        if row.first_delete:
            self._put_delete(key, document_id, row.first_delete)
        if self._anyone_waits:
            self._due.append(key)

    def _wait(self, key: bytes, previous: Iterable[bytes]) -> None:
        """Wait for one of the operations: a reader of the log needs all of them before its first entry."""
        for operation_id in previous:
            held_in = self._log_of(operation_id)
            awaited = held_in if held_in is not None else layout.operation_key(operation_id)
            if awaited is not None:
                self._put(b"waiting", awaited + key, b"")
                self._anyone_waits = True
                return

    def _log_of(self, operation_id: bytes) -> bytes | None:
        key = layout.operation_key(operation_id)
        operation_place = None if key is None else self._get(b"operations", key)
        return None if operation_place is None else operation_place[:LOG_KEY_SIZE]

    def _put_delete(self, key: bytes, document_id: bytes, seq_num: int) -> None:
        self._put(b"deletes", layout.short_hash(document_id) + key, layout.U64.pack(seq_num))

    def _get(self, database: bytes, key: bytes) -> bytes | None:
        value: bytes | None = self.transaction.get(key, db=self.databases[database])
        return value

    def _put(self, database: bytes, key: bytes, value: bytes) -> None:
        self.transaction.put(key, value, db=self.databases[database])


class DocumentReader:
    """Queries about documents, the places of operations, and the logs that authors keep."""

    def __init__(self, environment: LmdbFile, rows: RowCache) -> None:
        self._environment = environment
        self._databases = environment.databases
        self._rows = rows

    def document_of(self, operation_id: bytes) -> bytes | None:
        """Returns the document of an operation; None if it is not held or its log has no document."""
        operation_place = self.place_of(operation_id)
        row = self._rows.get(log_key(*operation_place.log)) if operation_place else None
        return row.document_id if row else None

    def place_of(self, operation_id: bytes) -> Place | None:
        """Returns the place of an operation, None if it is not held."""
        key = layout.operation_key(operation_id)
        if key is None:
            return None
        with self._environment.read() as transaction:
            value = transaction.get(key, db=self._databases[b"operations"])
        return None if value is None else layout.unpack_place(value)

    def deletes_of(self, document_id: bytes) -> Iterator[tuple[LogKey, int]]:
        """Iterate the logs that delete a document, with the sequence number of the first delete of each."""
        prefix = layout.short_hash(document_id)
        for key, value in self._environment.scan(b"deletes", prefix, _CHUNK_DELETES):
            yield split_log_key(key[len(prefix) :]), layout.U64.unpack(value)[0]

    def log_of(self, public_key: bytes, document_id: bytes) -> int | None:
        """Returns the id of the one log that an author keeps of a document, or None."""
        with self._environment.read() as transaction:
            document_key = public_key + layout.short_hash(document_id)
            value = transaction.get(document_key, db=self._databases[b"documents"])
        return None if value is None else int(layout.U64.unpack(value)[0])

    def next_log_id(self, public_key: bytes) -> int:
        """Returns the highest held log id of an author plus 1.

        Raises `IndexConflict` if that is too large.
        """
        with (
            self._environment.read() as transaction,
            transaction.cursor(db=self._databases[b"logs"]) as cursor,
        ):
            last = log_key(public_key, _MAX_LOG_ID)
            beyond = cursor.set_range(last)
            if beyond and cursor.key() == last:
                raise IndexConflict(f"author {public_key.hex()} has used up every log id")
            has_earlier = cursor.prev() if beyond else cursor.last()
            if not has_earlier or not cursor.key().startswith(public_key):
                return 0
            return split_log_key(cursor.key())[1] + 1
