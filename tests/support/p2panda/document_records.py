"""Documents for tests of their readers: operations in `logs`, and the records that a job would make of them.

Entries are not signed: readers of documents rely on `logs`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from itertools import count

from culm_models.p2panda.documents.document import AuthoredOperation, Document
from culm_models.p2panda.operations.identifiers import DocumentId, OperationId
from culm_models.p2panda.operations.operation import Action, Operation, decode_operation, encode_operation
from culm_models.p2panda.operations.reader import Value
from culm_models.p2panda.operations.values import encode_value
from culm_topics.logs.records import LogRecord
from culm_topics.p2panda.documents.record import DocumentField, DocumentRecord
from culm_topics.records import log_key

PARTITIONS = 2
MAX_VALUE_BYTES = 1_000
ANN, BEN = bytes([1]) * 32, bytes([2]) * 32
Written = tuple[int, bytes, bytes | None]
"""Partition, key and value of a record."""


def id_of(text: str) -> OperationId:
    """An operation id that belongs to nothing."""
    return b"\x00\x20" + hashlib.blake2b(text.encode(), digest_size=32).digest()


class DocumentStory:
    """Documents that authors write, each operation in the partition of its author."""

    def __init__(self) -> None:
        self.logs: list[Written] = []
        """All records of `logs`; who writes them to Kafka, writes them in this order."""
        self.places: dict[OperationId, tuple[int, int]] = {}
        self._documents: dict[DocumentId, Document] = {}
        self._operations: dict[OperationId, Operation] = {}
        self._document_of: dict[OperationId, DocumentId] = {}
        self._numbers = count(1)
        self._ends = dict.fromkeys(range(PARTITIONS), 0)

    def create(self, schema: str, author: bytes = ANN, **fields: Value) -> DocumentId:
        """Write a create. Returns its id, which is the document's."""
        return self._add("create", schema, None, author, fields)

    def update(
        self, previous: OperationId | tuple[OperationId, ...], author: bytes = ANN, **fields: Value
    ) -> OperationId:
        """Write an update of these heads, or a delete if it has no fields. Returns its id."""
        heads = (previous,) if isinstance(previous, bytes) else tuple(sorted(previous))
        schema = self._operations[heads[0]].schema_id
        return self._add("update" if fields else "delete", schema, heads, author, fields)

    def define(self, name: str, types: Mapping[str, str]) -> tuple[str, tuple[DocumentId, ...]]:
        """Write the definition of a schema. Returns its id, and the documents that define it."""
        fields = [
            self.create("schema_field_definition_v1", name=field, type=type_)
            for field, type_ in types.items()
        ]
        definition = self.create(
            "schema_definition_v1", name=name, description="", fields=tuple((field,) for field in fields)
        )
        return f"{name}_{definition.hex()}", (*fields, definition)

    def record(self, document_id: DocumentId) -> DocumentRecord:
        """The record of a document as it is now."""
        document = self._documents[document_id]
        view = document.view()
        assert view is not None
        fields = []
        for name, field in sorted((view.fields or {}).items()):
            value = encode_value(field.value)
            place = self.places[field.operation_id]
            fields.append(
                DocumentField(
                    name,
                    value if len(value) <= MAX_VALUE_BYTES else b"",
                    field.operation_id,
                    field.author,
                    *place,
                )
            )
        return DocumentRecord(
            view.schema_id,
            view.owner,
            "current" if view.fields is not None else "deleted",
            len(document.graph.order),
            view.view_id,
            tuple(fields),
            sum(1 for _ in document.graph.waiting()),
            tuple(sorted(document.graph.missing())),
            (),
        )

    def records(self, document_ids: Iterable[DocumentId] | None = None) -> list[Written]:
        """The records of these documents, or of all, for `documents`."""
        ids = self._documents if document_ids is None else document_ids
        return [(i[-1] % PARTITIONS, i, self.record(i).encode()) for i in ids]

    def _add(
        self,
        action: Action,
        schema: str,
        previous: tuple[OperationId, ...] | None,
        author: bytes,
        fields: Mapping[str, Value],
    ) -> OperationId:
        number = next(self._numbers)
        operation_id = id_of(f"operation {number}")
        data = encode_operation(action, schema, previous=previous, fields=dict(fields) or None)
        operation = decode_operation(data)
        document_id = operation_id
        if previous is not None:
            document_id = next(self._document_of[i] for i in previous if i in self._document_of)
        partition = author[0] % PARTITIONS
        self._operations[operation_id] = operation
        self._document_of[operation_id] = document_id
        self.places[operation_id] = partition, self._ends[partition]
        self._ends[partition] += 1
        record = LogRecord(number, b"entry", data, operation_id, schema)
        self.logs.append((partition, log_key(author, number), record.encode()))
        if document_id not in self._documents:
            self._documents[document_id] = Document(document_id, self._read)
        self._documents[document_id].add([AuthoredOperation(operation_id, author, operation)])
        return operation_id

    def _read(self, ids: Iterable[OperationId]) -> dict[OperationId, Operation]:
        return {operation_id: self._operations[operation_id] for operation_id in ids}
