"""The present documents in a local file: the contents of the topic `documents`, and places of operations.

On disk a document takes the bytes of its record, about 300 bytes, and about 100 for each operation that sets
a field. Memory holds a page cache and the result of one call (`culm_topics.readers.cache_file`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from heapq import merge
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

from culm_models.errors import CulmError
from culm_models.p2panda.operations.identifiers import DocumentId, DocumentViewId, SchemaId
from culm_topics.errors import RecordError
from culm_topics.p2panda.documents.errors import DocumentsFileFailed
from culm_topics.p2panda.documents.operation_places import TABLES as OPERATION_TABLES
from culm_topics.p2panda.documents.operation_places import OperationPlaces
from culm_topics.p2panda.documents.record import DocumentRecord, check_document_key
from culm_topics.p2panda.documents.selection import DocumentSelection
from culm_topics.readers.batch import TopicMessage
from culm_topics.readers.cache_file import CacheFile

FILE_NAME: Final = "documents.sqlite"
LAYOUT: Final = 1
_PAGE: Final = 1_000
_MAX_INTEGER: Final = (1 << 63) - 1
"""SQLite's integers are signed."""
_TABLES: Final = f"""
CREATE TABLE IF NOT EXISTS documents (
    id BLOB NOT NULL UNIQUE, schema TEXT NOT NULL, name TEXT NOT NULL, owner BLOB NOT NULL,
    view BLOB NOT NULL, version INTEGER NOT NULL, place INTEGER NOT NULL, place_offset INTEGER NOT NULL,
    record BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS by_name ON documents (name, id);
CREATE INDEX IF NOT EXISTS by_view ON documents (view);
CREATE TABLE IF NOT EXISTS positions (
    topic TEXT NOT NULL, partition INTEGER NOT NULL, next_offset INTEGER NOT NULL,
    PRIMARY KEY (topic, partition)
) WITHOUT ROWID;
{OPERATION_TABLES}
"""
_PUT: Final = """
INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE
SET schema = excluded.schema, name = excluded.name, owner = excluded.owner, view = excluded.view,
    version = excluded.version, place = excluded.place, place_offset = excluded.place_offset,
    record = excluded.record
"""
_LIST: Final = "SELECT id, schema, owner, place, place_offset FROM documents WHERE"


class ReadRecord(NamedTuple):
    """A record of `documents` with its place; `record` is None if the topic drops the document."""

    document_id: DocumentId
    record: DocumentRecord | None
    value: bytes
    partition: int
    offset: int


class AppliedDocument(NamedTuple):
    """A document that changed. `fields` are the names of fields that have other operations than before."""

    document_id: DocumentId
    schema_id: str
    owner: bytes
    fields: tuple[str, ...]
    is_new: bool = False
    is_gone: bool = False


def read_record(message: TopicMessage) -> ReadRecord:
    """Parse a record of `documents`. Raises `RecordError` if it, a value or an id in it is malformed."""
    document_id = check_document_key(message.key)
    if not message.value:
        return ReadRecord(document_id, None, b"", message.partition, message.offset)
    record = DocumentRecord.decode(message.value)
    try:
        SchemaId.parse(record.schema_id)
    except CulmError as error:
        raise RecordError(f"documents: {error}") from error
    for field in record.fields:
        field.read()
        if max(field.partition, field.offset) > _MAX_INTEGER:
            raise RecordError(
                f"documents: the field {field.name[:100]!r} has a partition or an offset above {_MAX_INTEGER}"
            )
    if record.version > _MAX_INTEGER:
        raise RecordError(f"documents: the version is above {_MAX_INTEGER}")
    return ReadRecord(document_id, record, message.value, message.partition, message.offset)


class DocumentFile:
    """The documents of one deployment, in a file in `folder`, or in a temporary one.

    `origin` identifies the topic. Raises `DocumentsFileFailed`, also if another program uses the file.
    """

    def __init__(self, folder: Path | None = None, origin: bytes = b"") -> None:
        self._file = CacheFile(
            None if folder is None else folder / FILE_NAME,
            layout=LAYOUT,
            tables=_TABLES,
            origin=origin,
            failed=DocumentsFileFailed,
        )
        self.operations = OperationPlaces(self._file)

    def close(self) -> None:
        """Close the file; a temporary one is deleted."""
        self._file.close()

    def positions(self) -> dict[int, int]:
        """Return the next offset of each partition of `documents` that was read."""
        return dict(self._file.rows("SELECT partition, next_offset FROM positions WHERE topic = 'documents'"))

    def apply(self, records: Iterable[ReadRecord], positions: Mapping[int, int]) -> list[AppliedDocument]:
        """Apply records in order, with the topic's new positions; all or nothing.

        A record of a lower version than the document has is ignored. Returns the documents that changed, each
        once.
        """
        changes: dict[DocumentId, AppliedDocument] = {}
        with self._file.transaction():
            for record in records:
                change = self._apply(record)
                if change is not None:
                    changes[record.document_id] = _combined(changes.get(record.document_id), change)
            self._file.write_all(
                "INSERT OR REPLACE INTO positions VALUES ('documents', ?, ?)", positions.items()
            )
        return [change for change in changes.values() if not (change.is_new and change.is_gone)]

    def _apply(self, read: ReadRecord) -> AppliedDocument | None:
        document_id, record = read.document_id, read.record
        rows = self._file.rows(
            "SELECT schema, owner, version, record FROM documents WHERE id = ?", document_id
        )
        if record is None:
            if not rows:
                return None
            schema_id, owner, _, _ = rows[0]
            self._file.rows("DELETE FROM documents WHERE id = ?", document_id)
            return AppliedDocument(document_id, schema_id, owner, (), is_gone=True)
        before: DocumentRecord | None = None
        if rows:
            _, _, version, value = rows[0]
            if record.version < version or read.value == value:
                return None
            before = DocumentRecord.decode(value)
        self._file.rows(
            _PUT,
            document_id,
            record.schema_id,
            SchemaId.parse(record.schema_id).name,
            record.owner,
            _view_key(record.view_id),
            record.version,
            read.partition,
            read.offset,
            read.value,
        )
        self.operations.add_places(
            [(field.operation_id, field.partition, field.offset) for field in record.fields]
        )
        self.operations.add_ids(record.view_id)
        return AppliedDocument(
            document_id, record.schema_id, record.owner, _changed(before, record), is_new=before is None
        )

    def record(self, document_id: DocumentId) -> DocumentRecord | None:
        """Return a document's record; None if there is none."""
        rows = self._file.rows("SELECT record FROM documents WHERE id = ?", document_id)
        return DocumentRecord.decode(rows[0][0]) if rows else None

    def at_view(self, view_id: DocumentViewId) -> tuple[DocumentId, DocumentRecord] | None:
        """Return the document whose present view this is, with its record; None if there is none."""
        rows = self._file.rows("SELECT id, record FROM documents WHERE view = ?", _view_key(view_id))
        return (rows[0][0], DocumentRecord.decode(rows[0][1])) if rows else None

    def has(self, document_id: DocumentId) -> bool:
        """Return whether there is a record of this document."""
        return bool(self._file.rows("SELECT 1 FROM documents WHERE id = ?", document_id))

    def ids(
        self, selection: DocumentSelection, since: Mapping[int, int] | None = None
    ) -> Iterator[DocumentId]:
        """Yield the ids of the selected documents in order, also while documents change.

        With `since` (offsets by partition of `documents`), yields only documents whose records are at these
        offsets or later.
        """
        rows: Iterator[tuple[bytes, str, bytes, int, int]]
        names = selection.schema_names()
        if selection.document_ids is not None:
            wanted = sorted(selection.document_ids)
            rows = chain.from_iterable(self._file.rows(f"{_LIST} id = ?", each) for each in wanted)
        elif names is None:
            rows = self._pages("")
        else:
            rows = merge(*(self._pages("name = ? AND", name) for name in sorted(names)))
        for document_id, schema_id, owner, partition, offset in rows:
            if since is not None and offset < since.get(partition, 0):
                continue
            if selection.takes(document_id, schema_id, owner):
                yield document_id

    def _pages(self, condition: str, *values: object) -> Iterator[tuple[bytes, str, bytes, int, int]]:
        last = b""
        while rows := self._file.rows(f"{_LIST} {condition} id > ? ORDER BY id LIMIT {_PAGE}", *values, last):
            yield from rows
            last = rows[-1][0]


def _changed(before: DocumentRecord | None, record: DocumentRecord) -> tuple[str, ...]:
    old = {} if before is None else {field.name: field.operation_id for field in before.fields}
    new = {field.name: field.operation_id for field in record.fields}
    return tuple(sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name)))


def _combined(first: AppliedDocument | None, second: AppliedDocument) -> AppliedDocument:
    """Return two changes of a document as one."""
    if first is None:
        return second
    fields = tuple(sorted({*first.fields, *second.fields}))
    return second._replace(fields=() if second.is_gone else fields, is_new=first.is_new)


def _view_key(view_id: DocumentViewId) -> bytes:
    """Return a key of fixed size: a view may have many heads."""
    return blake2b(b"".join(view_id), digest_size=32).digest()
