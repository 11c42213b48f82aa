"""Documents as the rows and lines that commands print."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from culm_models.p2panda.documents.document import DocumentView
    from culm_models.p2panda.documents.typed import TypedDocument
    from culm_topics.p2panda.documents.current import CurrentDocument

COLUMNS: Final = ("document_id", "schema_id", "operations", "deleted", "fields")
_SHOWN_FIELDS: Final = 3


def document_row(document: TypedDocument) -> dict[str, Any]:
    """Return a document with its fields, its problems and the operations that are missing."""
    return {
        **view_row(document.view),
        "fields": fields_row(document.view, document),
        "operations": document.operations,
        "waiting": document.waiting,
        "missing": [operation_id.hex() for operation_id in document.missing],
        "refused": {operation_id.hex(): code for operation_id, code in document.refused.items()},
        "problems": {name: {"code": e.code, "text": str(e)} for name, e in document.problems.items()},
        "unchecked": list(document.unchecked),
    }


def view_row(view: DocumentView) -> dict[str, Any]:
    """Return the document of a view, its schema, its owner and its heads."""
    return {
        "document_id": view.document_id,
        "schema_id": view.schema_id,
        "owner": view.owner,
        "view_id": [operation_id.hex() for operation_id in view.view_id],
        "deleted": view.fields is None,
    }


def fields_row(view: DocumentView, document: TypedDocument) -> dict[str, Any] | None:
    """Return the fields by name; their types are those of the schema if it is known.

    A field whose value is only in `logs` has no type and no value, but its place there.
    """
    from culm_models.conform.p2panda.messages import field_to_json
    from culm_topics.p2panda.documents.current import CurrentDocument

    if view.fields is None:
        return None
    types = document.types or {}
    rows = {
        name: {
            **field_to_json(field.value),
            **({"type": types[name]} if name in types and name not in document.problems else {}),
            "operation_id": field.operation_id.hex(),
            "author": field.author.hex(),
        }
        for name, field in view.fields.items()
    }
    if view is document.view and isinstance(document, CurrentDocument):
        rows.update(_unread(document))
    return dict(sorted(rows.items()))


def _unread(document: CurrentDocument) -> dict[str, dict[str, Any]]:
    return {
        name: {
            "type": (document.types or {}).get(name),
            "value": None,
            "operation_id": field.operation_id.hex(),
            "author": field.author.hex(),
            "in_logs": {"partition": field.partition, "offset": field.offset},
        }
        for name, field in document.unread.items()
    }


def summary(fields: dict[str, Any] | None, names: Collection[str] = ()) -> str:
    """Return the first fields on one line, those with these names first."""
    if fields is None:
        return ""
    ordered = sorted(fields.items(), key=lambda field: field[0] not in names)
    texts = [f"{name}: {'…' if 'in_logs' in field else field['value']}" for name, field in ordered]
    return ", ".join(texts[:_SHOWN_FIELDS] + (["…"] if len(texts) > _SHOWN_FIELDS else []))


def notes_of(row: dict[str, Any]) -> Iterator[str]:
    """Yield a line for each thing that is missing, refused, wrong or unchecked in a document's row."""
    if row["waiting"]:
        yield f"{row['waiting']} operations wait for {len(row['missing'])} that are missing"
    for operation_id, code in row["refused"].items():
        yield f"{operation_id} was refused: {code}"
    for name, problem in row["problems"].items():
        yield f"{name}: {problem['text']} ({problem['code']})"
    for name in row["unchecked"]:
        yield f"{name}: not checked, since it names an earlier view, which no present document shows"
