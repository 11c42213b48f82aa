"""Documents in a peer's store: reduced from the logs that the store holds.

A store knows the document of each log whose first operation it can connect. `StoredDocuments` reads these
logs again for every document that it is asked for, and keeps nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from culm_connectors.logs.index.store import LmdbLogStore
from culm_models.bamboo.log_store import LogKey
from culm_models.p2panda.documents.document import AuthoredOperation, Document, DocumentView
from culm_models.p2panda.documents.errors import DocumentError, MissingRelationError
from culm_models.p2panda.documents.schemas import definition_of, problems_of
from culm_models.p2panda.documents.views import read_view
from culm_models.p2panda.errors import P2pandaError, SchemaMismatchError
from culm_models.p2panda.operations.identifiers import DocumentId, DocumentViewId, OperationId
from culm_models.p2panda.operations.operation import Operation, check_entry, decode_operation
from culm_models.p2panda.operations.schema import Fields, FieldType

SCHEMA_PROBLEM: Final = "(schema)"
"""Key of a problem of the schema; no field has such a name."""


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document with what its operations say about it.

    `types` are the types of its fields if the definition of its schema is held, else None. `problems` are
    fields that do not match the schema, and relations to documents that are not held; `SCHEMA_PROBLEM` stands
    for the schema itself.
    """

    view: DocumentView
    types: Mapping[str, FieldType] | None
    operations: int
    waiting: int
    missing: tuple[OperationId, ...]
    refused: Mapping[OperationId, DocumentError]
    problems: Mapping[str, P2pandaError]


class StoredDocuments:
    """The documents of a store."""

    def __init__(self, store: LmdbLogStore) -> None:
        self._store = store
        self._types: dict[str, Fields | None] = {}
        """Fields of the schemas that were asked for: many documents have few schemas."""

    def ids(self, schema_ids: Iterable[str] | None = None) -> Iterator[DocumentId]:
        """Return the ids of all documents, or of those with these schemas, in ascending order."""
        wanted = None if schema_ids is None else set(schema_ids)
        for document_id, logs in sorted(self._logs.items()):
            info = self._store.log_info(*logs[0][0])
            if wanted is None or (info is not None and info.schema_id in wanted):
                yield document_id

    def document(self, document_id: DocumentId) -> StoredDocument | None:
        """Return a document; None if its create is not held."""
        held = {added.id: added for added in self.operations(document_id)}

        def read(ids: Iterable[OperationId]) -> Mapping[OperationId, Operation]:
            return {operation_id: held[operation_id].operation for operation_id in ids}

        document = Document(document_id, read)
        refused = document.add(held.values())
        view, graph = document.view(), document.graph
        if view is None:
            return None
        types, problems = self._checked(view)
        return StoredDocument(
            view=view,
            types=types,
            operations=len(graph.order),
            waiting=sum(1 for _ in graph.waiting()),
            missing=tuple(sorted(graph.missing() - refused.keys())),
            refused=refused,
            problems=problems,
        )

    def view(self, view_id: DocumentViewId) -> DocumentView | None:
        """Return a document as it was at these heads; None if not all of its operations are held."""
        return read_view(view_id, self._read_operation)

    def fields_of(self, schema: str) -> Fields | None:
        """Return the fields of a schema; None if its definition is not held."""
        if schema not in self._types:
            self._types[schema] = definition_of(schema, self.view)
        return self._types[schema]

    def operations(self, document_id: DocumentId) -> Iterator[AuthoredOperation]:
        """Return the operations of a document, log by log."""
        for (public_key, log_id), height in self._logs.get(document_id, ()):
            for entry, operation in self._store.entries(public_key, log_id, 1, height):
                operation_id = check_entry(entry, operation, verify_signature=False).hash
                yield AuthoredOperation(operation_id, public_key, decode_operation(operation))

    @cached_property
    def _logs(self) -> Mapping[DocumentId, list[tuple[LogKey, int]]]:
        """The logs of every document, with their heights."""
        logs: defaultdict[DocumentId, list[tuple[LogKey, int]]] = defaultdict(list)
        for public_key, log_id, height in self._store.log_heights(self._store.schema_ids()):
            info = self._store.log_info(public_key, log_id)
            if info is not None and info.document_id is not None:
                logs[info.document_id].append(((public_key, log_id), height))
        return logs

    def _read_operation(self, operation_id: OperationId) -> AuthoredOperation | None:
        place = self._store.place_of(operation_id)
        if place is None:
            return None
        ((_, operation),) = self._store.entries(*place.log, place.seq_num, place.seq_num)
        return AuthoredOperation(operation_id, place.log[0], decode_operation(operation))

    def _checked(self, view: DocumentView) -> tuple[Fields | None, Mapping[str, P2pandaError]]:
        """Return the types of a document's fields, and what does not match them."""
        try:
            types = self.fields_of(view.schema_id)
        except SchemaMismatchError as error:
            # Anybody may send such a document.
            return None, {SCHEMA_PROBLEM: error}
        if types is None or view.fields is None:
            return types, {}
        problems = problems_of(view.fields, types)
        for name, field in view.fields.items():
            if name in problems or not types[name].endswith(("relation", "relation_list")):
                continue
            lacking = [i for i in _related(field.value) if self._store.place_of(i) is None]
            if lacking:
                problems[name] = MissingRelationError(
                    f"{len(lacking)} of the documents that it names are not here: {lacking[0].hex()}"
                )
        return types, dict(sorted(problems.items()))


def _related(value: object) -> Iterator[OperationId]:
    """Return the operation ids in the value of a relation of any kind."""
    if isinstance(value, bytes):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from _related(part)
