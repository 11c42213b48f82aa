"""One document: the current values of its fields, and its views at other heads (p2panda, "documents").

The state is a function of the set of operations: neither the order in which they arrive nor repeats nor the
way in which they are divided into batches change it. An operation that follows all heads costs as much as its
fields. Any others of a batch cost one walk together.

Values are kept for the operations that set the fields now. An operation that arrives late may let an older
one win again; `read` returns the older ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from culm_models.p2panda.documents.errors import (
    DocumentError,
    OtherSchemaError,
    SecondCreateError,
    UnknownViewError,
)
from culm_models.p2panda.documents.graph import Graph
from culm_models.p2panda.documents.linear_order import Node, walk
from culm_models.p2panda.operations.identifiers import DocumentId, DocumentViewId, OperationId
from culm_models.p2panda.operations.operation import Operation
from culm_models.p2panda.operations.reader import Value


class AuthoredOperation(NamedTuple):
    """An operation with its id and its author's public key."""

    id: OperationId
    author: bytes
    operation: Operation


ReadOperations = Callable[[Iterable[OperationId]], Mapping[OperationId, Operation]]
"""Returns earlier operations by their ids: all that were added and are asked for."""


class FieldValue(NamedTuple):
    """The value of a field, with the operation that set it and its author."""

    operation_id: OperationId
    author: bytes
    value: Value


@dataclass(frozen=True, slots=True)
class DocumentView:
    """A document at a set of heads. `fields` is None if it is deleted."""

    document_id: DocumentId
    schema_id: str
    owner: bytes
    view_id: DocumentViewId
    fields: Mapping[str, FieldValue] | None


class Document:
    """The document of the create operation `document_id`; `read` returns operations that were added."""

    def __init__(self, document_id: DocumentId, read: ReadOperations) -> None:
        self.document_id = document_id
        self.graph = Graph()
        self._read = read
        self._schema_id: str | None = None
        self._owner = b""
        self._fields: dict[str, FieldValue] | None = {}
        self._unchecked: dict[OperationId, str] = {}
        """Schemas of operations that arrived before the create."""

    def add(self, operations: Iterable[AuthoredOperation]) -> dict[OperationId, DocumentError]:
        """Add operations in any order; repeats have no effect.

        Returns the operations that the document refuses, with the reasons: other creates, and operations of
        another schema. These may also have been added before the create.
        """
        first = len(self.graph.order)
        batch: dict[OperationId, AuthoredOperation] = {}
        refused: dict[OperationId, DocumentError] = {}
        for operation in operations:
            if operation.id in self.graph.nodes or operation.id in batch:
                continue
            error = self._error(operation)
            if error is None:
                batch[operation.id] = operation
                self._add(operation, refused)
            else:
                refused[operation.id] = error
        self._settle(first, batch)
        return refused

    def view(self) -> DocumentView | None:
        """Return the current view; None while the create is not here."""
        if self._schema_id is None:
            return None
        view_id = tuple(sorted(self.graph.heads))
        fields = None if self._fields is None else dict(self._fields)
        return DocumentView(self.document_id, self._schema_id, self._owner, view_id, fields)

    def view_at(self, view_id: DocumentViewId) -> DocumentView:
        """Return the view at these heads: what they and the operations before them amount to.

        Raises `UnknownViewError`.
        """
        unknown = [i for i in view_id if not self.graph.is_connected(i)]
        if unknown or not view_id or self._schema_id is None:
            names = ", ".join(operation_id.hex() for operation_id in unknown) or "none"
            raise UnknownViewError(f"of the operations of the view, these are not here: {names}")
        order = walk(self.graph.order[0], self.graph.ancestors(view_id))
        fields: dict[str, FieldValue] | None = None
        if not any(node.names is None for node in order):
            winners = _winners(order)
            values = self._read({node.id for node in winners.values()})
            fields = {name: _field(node, name, values[node.id]) for name, node in winners.items()}
        return DocumentView(self.document_id, self._schema_id, self._owner, view_id, fields)

    def _error(self, added: AuthoredOperation) -> DocumentError | None:
        operation = added.operation
        if operation.previous is None and added.id != self.document_id:
            return SecondCreateError(f"the document was created by {self.document_id.hex()}")
        if self._schema_id is not None and operation.schema_id != self._schema_id:
            return _other_schema(operation.schema_id, self._schema_id)
        return None

    def _add(self, added: AuthoredOperation, refused: dict[OperationId, DocumentError]) -> None:
        operation = added.operation
        names = None if operation.fields is None else tuple(operation.fields)
        node = Node(added.id, added.author, operation.previous or (), names)
        if operation.previous is None:
            self._schema_id, self._owner = operation.schema_id, added.author
            others = {i: schema for i, schema in self._unchecked.items() if schema != self._schema_id}
            refused.update((i, _other_schema(schema, self._schema_id)) for i, schema in others.items())
            self.graph.forget(others)
            self._unchecked.clear()
        elif self._schema_id is None:
            self._unchecked[added.id] = operation.schema_id
        self.graph.add(node)

    def _settle(self, first: int, batch: Mapping[OperationId, AuthoredOperation]) -> None:
        """Bring the fields up to date with the linear order from position `first` on."""
        changed = self.graph.order[min(first, self.graph.settle()) :]
        if self._fields is None or any(node.names is None for node in changed):
            self._fields = None
            return
        fields = self._fields
        winners = {
            name: node
            for name, node in _winners(changed).items()
            if name not in fields or fields[name].operation_id != node.id
        }
        earlier = {node.id for node in winners.values()} - batch.keys()
        values = dict(self._read(earlier)) if earlier else {}
        for name, node in winners.items():
            added = batch.get(node.id)
            fields[name] = _field(node, name, added.operation if added is not None else values[node.id])


def _field(node: Node, name: str, operation: Operation) -> FieldValue:
    return FieldValue(node.id, node.author, (operation.fields or {})[name])


def _winners(order: Iterable[Node]) -> dict[str, Node]:
    """Return the last operation that sets each field."""
    winners: dict[str, Node] = {}
    for node in order:
        winners.update(dict.fromkeys(node.names or (), node))
    return winners


def _other_schema(schema_id: str, of_document: str) -> OtherSchemaError:
    return OtherSchemaError(f"{schema_id[:100]} is not the document's schema, {of_document[:100]}")
