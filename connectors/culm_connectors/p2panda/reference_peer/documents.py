"""Documents in a peer's store: reduced from the logs that the store holds.

A store knows the document of each log whose first operation it can connect. `StoredDocuments` reads these
logs again for every document that it is asked for, and keeps nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property

from culm_connectors.logs.index.store import LmdbLogStore
from culm_models.bamboo.log_store import LogKey
from culm_models.p2panda.documents.document import AuthoredOperation, Document, DocumentView
from culm_models.p2panda.documents.typed import TypedDocument, Typing
from culm_models.p2panda.documents.views import read_view
from culm_models.p2panda.operations.identifiers import DocumentId, DocumentViewId, OperationId
from culm_models.p2panda.operations.operation import Operation, check_entry, decode_operation
from culm_models.p2panda.operations.schema import Fields


class StoredDocuments:
    """The documents of a store."""

    def __init__(self, store: LmdbLogStore) -> None:
        self._store = store
        self._typing = Typing(self)

    def ids(self, takes_schema: Callable[[str], bool]) -> Iterator[DocumentId]:
        """Return the ids of the documents whose schema ids `takes_schema` accepts, in ascending order."""
        for document_id, logs in sorted(self._logs.items()):
            info = self._store.log_info(*logs[0][0])
            if info is not None and takes_schema(info.schema_id):
                yield document_id

    def document(self, document_id: DocumentId) -> TypedDocument | None:
        """Return a document; None if its create is not held."""
        held = {added.id: added for added in self.operations(document_id)}

        def read(ids: Iterable[OperationId]) -> Mapping[OperationId, Operation]:
            return {operation_id: held[operation_id].operation for operation_id in ids}

        document = Document(document_id, read)
        refused = document.add(held.values())
        view, graph = document.view(), document.graph
        if view is None:
            return None
        checked = self._typing.check(view)
        return TypedDocument(
            view=view,
            types=checked.types,
            operations=len(graph.order),
            waiting=sum(1 for _ in graph.waiting()),
            missing=tuple(sorted(graph.missing() - refused.keys())),
            refused={operation_id: error.code for operation_id, error in refused.items()},
            problems=checked.problems,
            unchecked=checked.unchecked,
        )

    def view(self, view_id: DocumentViewId) -> DocumentView | None:
        """Return a document as it was at these heads; None if not all of its operations are held."""
        return read_view(view_id, self._read_operation)

    def fields_of(self, schema: str) -> Fields | None:
        """Return the fields of a schema; None if its definition is not held.

        Raises `SchemaMismatchError` if the definition has another name than the schema id.
        """
        return self._typing.fields_of(schema)

    def has_document(self, document_id: DocumentId) -> bool:
        """Return whether the create of a document is held."""
        return self.has_operation(document_id)

    def has_operation(self, operation_id: OperationId) -> bool:
        """Return whether an operation is held."""
        return self._store.place_of(operation_id) is not None

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
