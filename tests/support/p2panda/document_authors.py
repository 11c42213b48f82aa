"""Authors at several nodes who write to the same documents: beside each other, behind others, merging."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from culm_models.p2panda.documents.graph import Graph
from culm_models.p2panda.documents.linear_order import Node as OperationNode
from culm_models.p2panda.operations.identifiers import DocumentId, DocumentViewId, OperationId
from culm_models.p2panda.operations.operation import CheckedOperation, Value
from culm_models.p2panda.operations.schema import Fields, FieldType
from tests.support.p2panda.aquadoggo import DEFINITIONS, FIELDS, GraphqlAuthor, Node

GUIDE: Fields = {"level": "int", "name": "str"}
VENUE: Fields = {"is_open": "bool", "name": "str", "plan": "bytes", "rating": "float", "seats": "int"}
TOUR: Fields = {
    "guide": "pinned_relation",
    "start": "relation",
    "stops": "relation_list",
    "team": "pinned_relation_list",
    "title": "str",
}
_NAMED_BY: Mapping[str, str] = {"guide": "guide", "team": "guide", "start": "venue", "stops": "venue"}
"""By field, the schema of the documents that it names."""
_BEHIND = 0.4
"""Share of operations whose author knows only a part of what the node has."""
_RECENT = 8
_SET = 0.4
"""Probability that an update sets a field."""
# A node looks at all tours again for each view that a pinned relation names anew.
_PINNED_ANEW = 0.1


@dataclass(slots=True)
class SharedDocument:
    """A document as its writers know it."""

    schema_id: str
    previous: dict[OperationId, DocumentViewId] = field(default_factory=dict)
    """By operation, those that it names."""
    preceding: dict[OperationId, frozenset[OperationId]] = field(default_factory=dict)
    """By operation, all operations that it follows."""
    known: dict[str, list[OperationId]] = field(default_factory=dict)
    """By node, the operations that its authors have seen."""
    deleted: bool = False

    @property
    def id(self) -> DocumentId:
        """The id of the create."""
        return next(iter(self.preceding))

    def heads(self, node: str) -> DocumentViewId:
        """Return the current view of the authors at a node."""
        return self._maximal(self.known[node])

    def view_of_an_author(self, node: str, draw: random.Random) -> DocumentViewId:
        """Return the view on which somebody at a node writes: the current one, or that of who is behind."""
        known = self.known[node]
        if draw.random() >= _BEHIND:
            return self.heads(node)
        return self._maximal([draw.choice(known[-_RECENT:]) for _ in range(draw.randint(1, 3))])

    def add(self, node: str, operation_id: OperationId, previous: DocumentViewId) -> None:
        """Add what an author at a node wrote."""
        self.previous[operation_id] = previous
        before = (self.preceding[i] | {i} for i in previous)
        self.preceding[operation_id] = frozenset().union(*before)
        self.known.setdefault(node, []).append(operation_id)

    def ends_with_a_head(self) -> bool:
        """Whether a delete of all heads is the last operation in p2panda-rs's order.

        Otherwise one comes behind it that it follows, since the order is not topological. A node then fails
        to materialise the document, and tells nobody of the delete.
        """
        graph = Graph()
        for operation_id, previous in self.previous.items():
            graph.add(OperationNode(operation_id, b"", previous, ()))
        graph.settle()
        last = graph.order[-1]
        return not last.successors and not last.is_repeated

    def _maximal(self, operations: Sequence[OperationId]) -> DocumentViewId:
        followed: frozenset[OperationId] = frozenset().union(*(self.preceding[i] for i in operations))
        return tuple(sorted(set(operations) - followed))


class DocumentAuthors:
    """Authors at some nodes, as many at each, and all that they write."""

    def __init__(self, nodes: Mapping[str, Node], each: int) -> None:
        self.authors = {name: [GraphqlAuthor(node) for _ in range(each)] for name, node in nodes.items()}
        self.documents: list[SharedDocument] = []
        self.schemas: dict[str, Fields] = {}
        """Types of the fields by schema id."""
        self.ids: dict[str, str] = {}
        """Schema ids by name."""
        self._guide_views: list[DocumentViewId] = []
        self._numbers = count(1)

    def define(self, node: str) -> None:
        """Publish the schemas at a node."""
        author = self.authors[node][0]
        for name, types in (("guide", GUIDE), ("venue", VENUE), ("tour", TOUR)):
            definitions = [
                (author.write("create", FIELDS, {"name": name, "type": self._spelled(name, field_type)}),)
                for name, field_type in types.items()
            ]
            described: dict[str, Value] = {
                "name": name,
                "description": "Of a test",
                "fields": tuple(definitions),
            }
            self.ids[name] = f"{name}_{author.write('create', DEFINITIONS, described).hex()}"
            self.schemas[self.ids[name]] = types

    def written(self) -> list[CheckedOperation]:
        """Return all operations of documents, those of definitions left out."""
        everything = (
            operation
            for authors in self.authors.values()
            for author in authors
            for operation in author.written
        )
        return [operation for operation in everything if operation.schema_id in self.schemas]

    def create(self, node: str, schema: str, draw: random.Random) -> SharedDocument:
        """Create a document with all fields of a schema."""
        document = SharedDocument(self.ids[schema])
        fields = {
            name: self._value(name, field_type, node, draw) for name, field_type in self._types(document)
        }
        operation_id = draw.choice(self.authors[node]).write("create", document.schema_id, fields)
        document.add(node, operation_id, ())
        self.documents.append(document)
        self._remember(document, node)
        return document

    def update(
        self,
        node: str,
        document: SharedDocument,
        draw: random.Random,
        previous: Sequence[OperationId] | None = None,
    ) -> None:
        """Set some fields of a document, on a view that an author at the node may have unless it is given."""
        types = [
            (name, field_type)
            for name, field_type in self._types(document)
            if draw.random() < (_PINNED_ANEW if field_type.startswith("pinned") else _SET)
        ]
        types = types or [draw.choice([pair for pair in self._types(document) if "pinned" not in pair[1]])]
        fields = {name: self._value(name, field_type, node, draw) for name, field_type in types}
        view_id = document.view_of_an_author(node, draw) if previous is None else tuple(sorted(previous))
        author = draw.choice(self.authors[node])
        document.add(node, author.write("update", document.schema_id, fields, view_id), view_id)
        self._remember(document, node)

    def delete(self, node: str, document: SharedDocument, draw: random.Random) -> None:
        """Delete a document, of which the node has everything."""
        view_id = document.heads(node)
        author = draw.choice(self.authors[node])
        document.add(node, author.write("delete", document.schema_id, None, view_id), view_id)
        document.deleted = True

    def all_is_known(self) -> None:
        """State that all nodes hold all that was written."""
        for document in self.documents:
            document.known = {node: list(document.preceding) for node in self.authors}

    def _types(self, document: SharedDocument) -> list[tuple[str, FieldType]]:
        return list(self.schemas[document.schema_id].items())

    def _spelled(self, name: str, field_type: FieldType) -> str:
        return f"{field_type}({self.ids[_NAMED_BY[name]]})" if name in _NAMED_BY else field_type

    def _remember(self, document: SharedDocument, node: str) -> None:
        if document.schema_id == self.ids["guide"]:
            self._guide_views.append(document.heads(node))

    def _value(self, name: str, field_type: FieldType, node: str, draw: random.Random) -> Value:
        """Return a new value: numbers and texts are those of no other operation."""
        number = next(self._numbers)
        match field_type:
            case "int":
                return number if draw.random() < 0.5 else -number
            case "float":
                return number / 8
            case "bool":
                return draw.random() < 0.5
            case "bytes":
                return number.to_bytes(draw.choice((4, 60)))
            case "relation":
                return draw.choice(self._named(name, node)).id
            case "relation_list":
                documents = self._named(name, node)
                return tuple(draw.choice(documents).id for _ in range(draw.randint(0, 4)))
            case "pinned_relation":
                return draw.choice(self._guide_views)
            case "pinned_relation_list":
                return tuple(draw.choice(self._guide_views) for _ in range(draw.randint(0, 3)))
            case _:
                return f"{name} {number} ü"

    def _named(self, name: str, node: str) -> list[SharedDocument]:
        """Return the documents that a relation may name: those that the node has."""
        schema_id = self.ids[_NAMED_BY[name]]
        return [
            document
            for document in self.documents
            if document.schema_id == schema_id and node in document.known and not document.deleted
        ]
