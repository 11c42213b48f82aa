"""Documents as a p2panda node's GraphQL shows them, compared with views that Culm computed.

A node shows relations as the documents that they name, and no deleted ones. So the expected answer to a
relation depends on the views of other documents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from culm_models.p2panda.documents.document import DocumentView
from culm_models.p2panda.operations.identifiers import DocumentId, DocumentViewId
from culm_models.p2panda.operations.operation import Value
from culm_models.p2panda.operations.schema import Fields, FieldType
from tests.support.p2panda.aquadoggo import Node

PAGE_SIZE = 200
ReadView = Callable[[DocumentViewId], DocumentView | None]

_ASKED: Mapping[str, str] = {
    "relation": " { meta { documentId viewId } }",
    "pinned_relation": " { meta { viewId } }",
    "relation_list": " (first: 1000) { documents { meta { documentId viewId } } }",
    "pinned_relation_list": " (first: 1000) { documents { meta { viewId } } }",
}
"""By type of a field, what is asked of the documents that it names."""


@dataclass(slots=True)
class Comparison:
    """How many documents and pinned views a node shows as expected, and what differs, by id."""

    shown: int = 0
    deleted: int = 0
    pinned: int = 0
    differing: dict[str, str] = field(default_factory=dict)

    @property
    def equal(self) -> int:
        """Documents that are equal, those included that are deleted on both sides."""
        return self.shown + self.deleted


def compare(
    node: Node, views: Mapping[DocumentId, DocumentView], schemas: Mapping[str, Fields], read_view: ReadView
) -> Comparison:
    """Compare the documents of some schemas at a node with views, which may come from any reader of Culm.

    `views` are the current views of all documents of these schemas. `read_view` returns the view at given
    heads, for pinned relations.
    """
    comparison = Comparison()
    by_view_id = {view.view_id: view for view in views.values() if view.fields is not None}
    pinned: set[DocumentViewId] = set()
    for schema_id, types in schemas.items():
        answers = read_answers(node, schema_id, types)
        of_schema = {key: view for key, view in views.items() if view.schema_id == schema_id}
        for document_id, view in of_schema.items():
            answer = answers.pop(document_id.hex(), None)
            expected = _expected(view, types, views, by_view_id)
            if answer != expected:
                comparison.differing[document_id.hex()] = f"the node: {answer}\nCulm:     {expected}"
            elif view.fields is None:
                comparison.deleted += 1
            else:
                comparison.shown += 1
                pinned.update(_pinned(view, types))
        comparison.differing |= {key: f"at the node alone: {answer}" for key, answer in answers.items()}
    for view_id in pinned:
        _compare_pinned(node, view_id, read_view(view_id), schemas, comparison)
    return comparison


def read_answers(node: Node, schema_id: str, types: Fields) -> dict[str, Any]:
    """Return what a node shows of all documents of a schema, by document id, read page by page."""
    answers: dict[str, Any] = {}
    page = f"first: {PAGE_SIZE}"
    while True:
        collection = node.ask(
            f"{{ all: all_{schema_id}({page}) {{ hasNextPage endCursor documents {_selection(types)} }} }}"
        )["all"]
        answers |= {document["meta"]["documentId"]: document for document in collection["documents"]}
        if not collection["hasNextPage"]:
            return answers
        page = f'first: {PAGE_SIZE}, after: "{collection["endCursor"]}"'


def _selection(types: Fields) -> str:
    names = " ".join(f"{name}{_ASKED.get(field_type, '')}" for name, field_type in types.items())
    return f"{{ meta {{ documentId viewId owner }} fields {{ {names} }} }}"


def _compare_pinned(
    node: Node,
    view_id: DocumentViewId,
    view: DocumentView | None,
    schemas: Mapping[str, Fields],
    comparison: Comparison,
) -> None:
    """Compare the fields of a document as it was at the heads that a pinned relation names."""
    key = _hex(view_id)
    if view is None:
        comparison.differing[key] = "Culm does not have this view"
        return
    types = schemas[view.schema_id]
    answer = node.ask(f'{{ view: {view.schema_id}(viewId: "{key}") {_selection(types)} }}')["view"]
    expected = _expected(view, types, {}, {})
    if answer == expected:
        comparison.pinned += 1
    else:
        comparison.differing[key] = f"the node: {answer}\nCulm:     {expected}"


def _expected(
    view: DocumentView,
    types: Fields,
    views: Mapping[DocumentId, DocumentView],
    by_view_id: Mapping[DocumentViewId, DocumentView],
) -> Any:
    if view.fields is None:
        return None
    return {
        "meta": {
            "documentId": view.document_id.hex(),
            "viewId": _hex(view.view_id),
            "owner": view.owner.hex(),
        },
        "fields": {
            name: _shown(view.fields[name].value, field_type, views, by_view_id)
            for name, field_type in types.items()
        },
    }


def _shown(
    value: Value,
    field_type: FieldType,
    views: Mapping[DocumentId, DocumentView],
    by_view_id: Mapping[DocumentViewId, DocumentView],
) -> Any:
    """Return the value of a field as GraphQL shows it."""
    if field_type == "bytes":
        assert isinstance(value, bytes)
        return value.hex()
    if field_type == "relation":
        assert isinstance(value, bytes)
        return _meta(views[value])
    if field_type == "pinned_relation":
        return {"meta": {"viewId": _hex(_ids(value))}}
    if field_type == "relation_list":
        documents = [_meta(views[document_id]) for document_id in _ids(value)]
        return {"documents": [shown for shown in documents if shown is not None]}
    if field_type == "pinned_relation_list":
        assert isinstance(value, tuple)
        # A node leaves out views that are not the current ones of their documents.
        current = [_ids(view_id) for view_id in value if view_id in by_view_id]
        return {"documents": [{"meta": {"viewId": _hex(view_id)}} for view_id in current]}
    return value


def _meta(view: DocumentView) -> Any:
    if view.fields is None:
        return None
    return {"meta": {"documentId": view.document_id.hex(), "viewId": _hex(view.view_id)}}


def _pinned(view: DocumentView, types: Fields) -> Iterator[DocumentViewId]:
    for name, value in (view.fields or {}).items():
        if types[name] == "pinned_relation":
            yield _ids(value.value)


def _ids(value: object) -> tuple[bytes, ...]:
    assert isinstance(value, tuple)
    return value


def _hex(view_id: DocumentViewId) -> str:
    return "_".join(operation_id.hex() for operation_id in view_id)
