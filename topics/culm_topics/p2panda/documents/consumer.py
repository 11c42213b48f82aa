"""`DocumentConsumer`: the present documents of p2panda, and what changes of them.

from culm_topics.p2panda.documents.consumer import DocumentConsumer

with DocumentConsumer("127.0.0.1:9092", schemas=["venue"]) as consumer:
    for change in consumer:
        if change.document is not None and not change.document.is_deleted:
            print(change.document_id.hex(), change.document["name"], change.fields)
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from culm_models.p2panda.documents.blobs import read_blob
from culm_models.p2panda.documents.document import DocumentView
from culm_models.p2panda.operations.identifiers import DocumentId, DocumentViewId, check_view_id
from culm_models.p2panda.operations.reader import Value
from culm_models.p2panda.operations.schema import Fields
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.kafka.local import named_kafka
from culm_topics.kafka.origin import Origin
from culm_topics.p2panda.documents.current import CurrentDocument
from culm_topics.p2panda.documents.document_file import AppliedDocument
from culm_topics.p2panda.documents.errors import DocumentUnknown, StartByTimeRefused
from culm_topics.p2panda.documents.log_operations import DEFAULT_MAX_SCAN_RECORDS
from culm_topics.p2panda.documents.record import DocumentField
from culm_topics.p2panda.documents.selection import DocumentSelection
from culm_topics.p2panda.documents.state_reader import DocumentStateReader
from culm_topics.readers.state_consumer import READY, StateConsumer


@dataclass(frozen=True, slots=True)
class DocumentChange:
    """A document that changed; `document` is its state then or later, None if the topic has dropped it.

    `fields` are the names of the fields that other operations set than before; it is empty if only the number
    of waiting operations changed, for example. `is_new`: the consumer did not know the document before.
    Several changes may be combined.
    """

    document_id: DocumentId
    document: CurrentDocument | None
    fields: tuple[str, ...]
    is_new: bool


class DocumentConsumer(StateConsumer[DocumentChange, DocumentStateReader]):
    """Reads the present documents from Kafka; an iterator and an asynchronous iterator of changes.

    `kafka` is bootstrap servers, or settings; without it, the cluster that the environment names (see
    `culm_topics.kafka.local`).

    It is a reader of state: it belongs to no consumer group and commits nothing. First it reads the topic up
    to the present end and hands out every document once, as new; then documents come as they change. After
    `load` only later changes are handed out. `since` (an earlier `positions()`) leaves out what was written
    before: a program that continues from there sees everything at least once. `origin`, taken with those
    positions, ensures that they belong to this topic. A time is refused (`StartByTimeRefused`), because the
    topic does not have the documents of a past time. `stop_at_end` ends the iteration after the contents of
    the topic at the start.

    `schemas` (schema ids, or names for all schemas of that name), `owners` (public keys of those who created
    the documents) and `document_ids` restrict what is handed out, but not lookups: a document must match all
    that are given.

    A document has types and problems (`TypedDocument`) as soon as the definition of its schema is among the
    documents; one that arrives late types its documents from then on. A value that is too long for a record
    is only in `logs`: it is in `unread` and is not checked. `document(id)`, `complete` and `value` read it.
    Relations are looked up among the documents. A pinned relation to an earlier view is `unchecked`, unless
    its operations are known.

    The state is on disk: per document its record, about 300 bytes, and about 100 for each operation that sets
    a field. Memory is bounded: 32 MiB of the state are cached. With a `state_dir` it stays there, and the
    next consumer reads only newer records; one program at a time uses it. Without one it is a temporary file.

    Records with a lower version than the document has are ignored. Malformed records are skipped and counted
    (`bad_records`, `passed_over`); with `strict` they raise `RecordError`. Also raises `OriginChanged`,
    `TopicRecreated`, `TopicMissing`, `OffsetOutOfRange`, `KafkaFailure`, `DocumentsFileFailed`. Not for
    several threads or tasks at once, except `stop()`.
    """

    def __init__(
        self,
        kafka: KafkaSettings | str | None = None,
        *,
        schemas: Iterable[str] | None = None,
        owners: Iterable[bytes] | None = None,
        document_ids: Iterable[DocumentId] | None = None,
        since: Mapping[int, int] | datetime | float | None = None,
        origin: Origin | None = None,
        state_dir: Path | str | None = None,
        stop_at_end: bool = False,
        max_scan_records: int = DEFAULT_MAX_SCAN_RECORDS,
        topic_check_seconds: float = 30.0,
        strict: bool = False,
    ) -> None:
        if since is not None and not isinstance(since, Mapping):
            raise StartByTimeRefused(
                f"documents cannot be read from the time {since}: their topic has the present state of each"
            )
        selection = DocumentSelection.of(schemas, owners, document_ids)
        reader = DocumentStateReader(
            named_kafka(kafka),
            state_dir=None if state_dir is None else Path(state_dir),
            max_scan_records=max_scan_records,
            topic_check_seconds=topic_check_seconds,
        )
        super().__init__(reader, since=since, origin=origin, stop_at_end=stop_at_end, strict=strict)
        self._selection = selection
        self._current = reader.current
        self._has_snapshot = False
        self._pending: Iterator[AppliedDocument | DocumentId] | None = None
        """What was read and is to be handed out; an id stands for a document as new."""
        self._next: AppliedDocument | DocumentId | None = None
        """The one of these that is computed next. If reading for it fails, it is computed again."""

    # Documents in their present state.

    def load(self) -> None:
        """Read up to the present end. Changes that are read here are not handed out."""
        with self._lock:
            self._pending = self._next = None
            self._ready.clear()
            self._reader.catch_up()
            self._check_records()
            self._has_snapshot = True

    async def load_async(self) -> None:
        """Run `load` without blocking the event loop."""
        await asyncio.to_thread(self.load)

    def documents(self) -> Iterator[CurrentDocument]:
        """Yield the selected documents by id, as far as records were read, also while others change.

        Values that are only in `logs` are not read.
        """
        return self._current.documents(self._selection)

    def document(self, document_id: DocumentId) -> CurrentDocument | None:
        """Return a document with all of its values; None if the topic does not have it.

        Raises `ValueMissing` if `logs` lacks a value, and `ViewTooLarge` if the values that are only there
        have more than 64 MiB.
        """
        with self._lock:
            document = self._current.document(document_id)
            return None if document is None else self._current.complete(document)

    def complete(self, document: CurrentDocument) -> CurrentDocument:
        """Return a document with all of its values, and checked with them.

        Raises the same errors as `document`.
        """
        with self._lock:
            return self._current.complete(document)

    def value(self, field: DocumentField) -> Value:
        """Return the value of a field that is among a document's `unread`. Raises `ValueMissing`."""
        with self._lock:
            return self._current.value(field)

    def view_at(self, view_id: DocumentViewId) -> DocumentView:
        """Return a document as it was at these heads.

        The present view of a document, and one whose operations all set a field of a present document, are
        read directly. Otherwise the operations are searched for in `logs`, from where the last search ended,
        through `max_scan_records` records at most. What was passed is remembered, on disk with about 120
        bytes for each operation, so that all searches together read `logs` once.

        Raises `UnknownViewError` with the operations that are not here, `ScanLimitReached` (another call goes
        on), `ViewTooLarge` for more than 10,000 operations or 64 MiB, and `DocumentViewIdError`.
        """
        check_view_id(view_id)
        with self._lock:
            return self._current.view_at(view_id)

    def blob(self, document_id: DocumentId) -> Iterator[bytes]:
        """Return the bytes of a blob, piece after piece; only one piece is in memory at a time.

        Raises at once `DocumentUnknown`, and `NotABlobError` for a document of another schema. Raises after
        the bytes that can be read `BlobIncompleteError` with the number of the piece that is not here, and
        `BlobLengthError`.
        """
        document = self.document(document_id)
        if document is None:
            raise DocumentUnknown(f"there is no document {document_id.hex()}")
        return read_blob(document.view, self._read_view)

    def fields_of(self, schema: str) -> Fields | None:
        """Return the fields of a schema by its id; None if its definition is not among the documents.

        Raises `SchemaIdError`, and `SchemaMismatchError` if the definition has another name than the id.
        """
        with self._lock:
            return self._current.typing.fields_of(schema)

    # Changes.

    @property
    def finished(self) -> bool:
        """Whether `stop_at_end` has reached the end."""
        return self._stop_at_end and self._has_snapshot and self._pending is None and not self._ready

    def positions(self) -> dict[int, int]:
        """Return positions for a later `since`, by partition: before them everything was handed out."""
        with self._lock:
            self._note_positions()
            return dict(self._handed_out)

    def _fetch(self, timeout_seconds: float) -> None:
        if self._pending is None and self._has_snapshot:
            self._note_positions()
            self._pending = self._selected(self._reader.poll(timeout_seconds))
            self._check_records()
        elif self._pending is None:
            if not self._reader.is_read:
                self._reader.poll(timeout_seconds)
                self._check_records()
            if self._reader.is_read:
                self._has_snapshot = True
                self._pending = self._current.ids(self._selection, self._since)
        self._fill()

    def _fill(self) -> None:
        """Compute the next changes of those that were read: a batch may have many large documents."""
        if self._ready:
            return
        while self._pending is not None and len(self._ready) < READY:
            if self._next is None:
                self._next = next(self._pending, None)
            if self._next is None:
                self._pending = None
                return
            change = self._change(self._next)
            self._next = None
            if change is not None:
                self._ready.append(change)

    def _note_positions(self) -> None:
        if self._has_snapshot and self._pending is None and not self._ready:
            self._handed_out = self._reader.positions

    def _selected(self, applied: Iterable[AppliedDocument]) -> Iterator[AppliedDocument]:
        for change in applied:
            if self._selection.takes(change.document_id, change.schema_id, change.owner):
                yield change

    def _change(self, due: AppliedDocument | DocumentId) -> DocumentChange | None:
        if isinstance(due, AppliedDocument):
            document = None if due.is_gone else self._current.document(due.document_id)
            return DocumentChange(due.document_id, document, due.fields, due.is_new)
        document = self._current.document(due)
        if document is None:
            return None
        names = tuple(sorted({*(document.view.fields or {}), *document.unread}))
        return DocumentChange(due, document, names, is_new=True)

    def _read_view(self, view_id: DocumentViewId) -> DocumentView | None:
        with self._lock:
            return self._current.view_without_scan(view_id)
