"""The first stage: the document of each log. A plain function of rows and state.

A log holds one document. If its first operation is a create, the document is the one that it creates; else it
is the document of the log that holds the first of the operations which it follows. Only this one counts, so
that the result does not depend on what arrives first. Kafka gives no order across logs: until the document of
that other log is known, a log waits (`waiting_logs`).

The state has only logs whose document is known, and their operations. So an operation is either there, which
decides the document of every log that follows it, or it may be among the rows that wait, which are searched
again when they are released. Each log is decided once, so not even a circle of logs, which hashes rule out,
would keep the step busy.

The same rows on the same state give the same bytes. The same records in other batches or in another order end
in the same operations of each document, as long as no limit is exceeded. Rows that arrive again are emitted
again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

import numpy as np

from culm_models.bamboo.hashes import PREFIX
from culm_models.p2panda.operations.identifiers import DocumentId
from culm_streaming.errors import StateMissingError
from culm_streaming.p2panda_documents.rows import (
    SHORT_ID_SIZE,
    ArrivedRows,
    DocumentRows,
    LogRows,
    RejectedRow,
    short_id,
)
from culm_streaming.p2panda_documents.settings import DocumentsLayout
from culm_streaming.p2panda_documents.sorted_runs import Array, Keys, RunsPlace, SortedRuns
from culm_streaming.p2panda_documents.waiting_logs import (
    AWAITED,
    BLOCKS,
    LOG_BLOCKS,
    SEGMENTS,
    TOTALS,
    WaitingLogs,
    state_part,
)
from culm_streaming.progress import Waiting
from culm_streaming.stateful.job_state import JobState

LOG_ID_SIZE: Final = 16
_HASH_SIZE: Final = 32


LOGS: Final = RunsPlace("documents of logs", state_part(b"L"), state_part(b"l"), _HASH_SIZE)
"""The document of each log, without its constant prefix, by the id of the log."""
OPERATIONS: Final = RunsPlace("logs of operations", state_part(b"O"), state_part(b"o"), LOG_ID_SIZE)
"""The id of the log of each operation, by the operation's short id."""
VARIABLES: Final = (
    *(LOGS.directory, LOGS.runs, OPERATIONS.directory, OPERATIONS.runs),
    *(TOTALS, LOG_BLOCKS, AWAITED, SEGMENTS),
)


@dataclass(slots=True)
class LogDocumentsOutput:
    """Rows for the second stage, and records of `rejected`.

    `waiting` are the logs whose document is not known yet; None if none waits and none waited before.
    """

    resolved: list[DocumentRows] = field(default_factory=list)
    refused: list[RejectedRow] = field(default_factory=list)
    waiting: Waiting | None = None


def log_id(key: bytes) -> bytes:
    """Return the id by which the state finds a log."""
    return blake2b(key, digest_size=LOG_ID_SIZE).digest()


def log_documents_step(
    store: JobState, rows: ArrivedRows, layout: DocumentsLayout, now_ms: int
) -> LogDocumentsOutput:
    """Assign operations of all logs to documents; returns what is assigned and what is refused.

    `now_ms` is kept for logs that begin to wait; no record depends on it.
    """
    output = LogDocumentsOutput(refused=sorted(rows.refused))
    waiting = WaitingLogs(store, layout, now_ms)
    if rows.logs:
        documents = SortedRuns(store, LOGS, layout.blocks)
        operations = SortedRuns(store, OPERATIONS, layout.blocks)
        batch = _Batch(rows.logs, documents, operations, waiting)
        batch.resolve()
        batch.append()
        output.resolved = batch.emit()
        documents.save()
        operations.save()
        waiting.save()
    output.refused += waiting.refused
    output.waiting = waiting.progress()
    return output


class _Batch:
    """The logs of a micro-batch, by index, and what is found out about them."""

    def __init__(
        self, rows: list[LogRows], documents: SortedRuns, operations: SortedRuns, waiting: WaitingLogs
    ) -> None:
        self._documents, self._operations, self._waiting = documents, operations, waiting
        self._rows = sorted(rows)
        self._index: dict[bytes, int] = {}
        self._document_of: list[DocumentId | None] = []
        self._awaited: list[bytes] = []
        """The short id of the operation that the first operation of each log follows, or empty."""
        self._owners: list[int] = []
        """The log of each row."""
        for row in self._rows:
            owner = self._index.setdefault(row.log, len(self._index))
            if owner == len(self._awaited):
                self._document_of.append(None)
                self._awaited.append(b"")
            self._owners.append(owner)
            if row.creates:
                self._document_of[owner] = row.starts_with
            elif row.starts_with:
                self._awaited[owner] = short_id(row.starts_with)
        self._keys = list(self._index)
        self._new = [document is not None for document in self._document_of]
        """Whether the state may lack the document of each log."""
        self._ids = _rows_of(b"".join(map(log_id, self._keys)), LOG_ID_SIZE)
        counts = [len(row.short_ids) // SHORT_ID_SIZE for row in self._rows]
        keys = Keys.of(b"".join([row.short_ids for row in self._rows]))
        order = keys.order()
        self._short_ids = keys.take(order)
        self._logs_of_ids: Array = np.repeat(np.array(self._owners, np.int64), counts)[order]
        self._successors: dict[int, list[bytes]] = {}
        """Keys of logs that belong to the document of a log in this batch, by its index."""
        self._unheld: dict[bytes, list[bytes]] = {}
        """Keys of logs by awaited operations that are neither in this batch nor in the state."""
        self._due: list[tuple[bytes, DocumentId]] = []
        """Logs whose document was found, by key."""
        self._released: list[tuple[bytes, DocumentId, list[LogRows]]] = []

    def resolve(self) -> None:
        """Find the documents of as many logs as possible, waiting ones included."""
        self._look_up_documents()
        self._look_up_awaited()
        self._wake_waiting()
        for owner in sorted(self._successors):
            self._pass_on(owner)
        while self._due:
            self._settle(*self._due.pop())

    def append(self) -> None:
        """Add the logs whose document was found to the state, and the operations of all known logs."""
        known = np.array([document is not None for document in self._document_of])
        fresh = np.flatnonzero(known & np.array(self._new))
        ids = Keys.of(self._ids[fresh].ravel())
        hashes = [
            document[len(PREFIX) :] for document in map(self._document_of.__getitem__, fresh) if document
        ]
        of_known = known[self._logs_of_ids]
        operations = self._short_ids if of_known.all() else self._short_ids.take(of_known)
        logs_of_operations = self._ids[self._logs_of_ids[of_known]]
        if self._released:
            packed: list[bytes] = []
            counts: list[int] = []
            for _, document, rows in self._released:
                hashes.append(document[len(PREFIX) :])
                packed += [row.short_ids for row in rows]
                counts.append(sum(len(row.short_ids) for row in rows) // SHORT_ID_SIZE)
            released_ids = b"".join(log_id(key) for key, _, _ in self._released)
            ids = ids.joined(Keys.of(released_ids))
            operations = operations.joined(Keys.of(b"".join(packed)))
            logs_of_released = np.repeat(_rows_of(released_ids, LOG_ID_SIZE), counts, axis=0)
            logs_of_operations = np.concatenate((logs_of_operations, logs_of_released))
        self._documents.append(ids, _rows_of(b"".join(hashes), _HASH_SIZE))
        self._operations.append(operations, logs_of_operations)

    def emit(self) -> list[DocumentRows]:
        """Return the rows of known logs, those that waited first. The others wait from now on."""
        resolved = [
            DocumentRows(document, row.log, row.schema_id, row.operations)
            for _, document, rows in self._released
            for row in rows
        ]
        unknown: list[tuple[int, bool, LogRows]] = []
        document_of = self._document_of
        for row, owner in zip(self._rows, self._owners, strict=True):
            document = document_of[owner]
            if document is None:
                unknown.append((owner, not row.starts_with, row))
            else:
                resolved.append(DocumentRows(document, row.log, row.schema_id, row.operations))
        for owner, _, row in sorted(unknown):
            self._waiting.hold(row, self._awaited[owner])
        return resolved

    def _look_up_documents(self) -> None:
        unknown = [owner for owner, document in enumerate(self._document_of) if document is None]
        if unknown:
            is_known, hashes = self._documents.lookup(Keys.of(self._ids[unknown].ravel()))
            for at in np.flatnonzero(is_known).tolist():
                self._document_of[unknown[at]] = PREFIX + hashes[at].tobytes()

    def _look_up_awaited(self) -> None:
        """Find the logs of the operations that unknown logs follow, in this batch and in the state."""
        starting = [
            owner
            for owner, awaited in enumerate(self._awaited)
            if awaited and self._document_of[owner] is None
        ]
        if not starting:
            return
        awaited = Keys.of(b"".join([self._awaited[owner] for owner in starting]))
        places = self._short_ids.find(awaited)
        for at in np.flatnonzero(places >= 0).tolist():
            predecessor = int(self._logs_of_ids[places[at]])
            self._successors.setdefault(predecessor, []).append(self._keys[starting[at]])
        elsewhere = np.flatnonzero(places < 0)
        if not len(elsewhere):
            return
        is_known, logs = self._operations.lookup(awaited.take(elsewhere))
        for owner in [starting[at] for at in elsewhere[~is_known].tolist()]:
            self._unheld.setdefault(self._awaited[owner], []).append(self._keys[owner])
        has_document, hashes = self._documents.lookup(Keys.of(logs[is_known].ravel()))
        if not has_document.all():
            raise StateMissingError("the log of a known operation has no document")
        for at, document_hash in zip(elsewhere[is_known].tolist(), hashes, strict=True):
            self._due.append((self._keys[starting[at]], PREFIX + document_hash.tobytes()))

    def _wake_waiting(self) -> None:
        """Find the waiting logs that wait for operations of this batch."""
        if not self._waiting.count:
            return
        awaited = self._waiting.awaited_in(np.unique(self._short_ids.blocks(BLOCKS)).tolist())
        places = self._short_ids.find(Keys.of(b"".join(awaited)))
        for at in np.flatnonzero(places >= 0).tolist():
            predecessor = int(self._logs_of_ids[places[at]])
            self._successors.setdefault(predecessor, []).extend(self._waiting.waiting_for(awaited[at]))

    def _settle(self, key: bytes, document: DocumentId) -> None:
        owner = self._index.get(key)
        if owner is not None:
            if self._document_of[owner] is not None:
                return
            self._document_of[owner] = document
            self._new[owner] = True
            self._pass_on(owner)
        if key in self._waiting:
            self._release(key, document)

    def _pass_on(self, owner: int) -> None:
        """Make the successors of a log due if its document is known."""
        document = self._document_of[owner]
        if document is not None:
            self._due += [(key, document) for key in self._successors.pop(owner, ())]

    def _release(self, key: bytes, document: DocumentId) -> None:
        """Release a waiting log, and make logs due that wait for one of its operations."""
        rows = self._waiting.release(key)
        self._released.append((key, document, rows))
        for row in rows:
            for start in range(0, len(row.short_ids), SHORT_ID_SIZE):
                operation = row.short_ids[start : start + SHORT_ID_SIZE]
                followers = self._unheld.pop(operation, [])
                followers += self._waiting.waiting_for(operation)
                self._due += [(follower, document) for follower in followers]


def _rows_of(packed: bytes, size: int) -> Array:
    return np.frombuffer(packed, np.uint8).reshape(-1, size)
