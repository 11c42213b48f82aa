"""Application schemas: read from the documents that define them, and held against other documents.

The encoding of operations does not distinguish all types: a relation is a byte string, too. A known schema
tells the type of every field, and what is wrong with a value.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from culm_models.p2panda.documents.document import DocumentView, FieldValue
from culm_models.p2panda.documents.errors import (
    DocumentError,
    FieldTypeError,
    MissingFieldError,
    UnknownFieldError,
)
from culm_models.p2panda.errors import SchemaMismatchError
from culm_models.p2panda.operations.identifiers import DocumentViewId, SchemaId
from culm_models.p2panda.operations.schema import (
    DEFINITION,
    FIELD_DEFINITION,
    MAX_SCHEMA_FIELDS,
    SYSTEM_SCHEMAS,
    Fields,
    FieldType,
    fitting_types,
    is_field_name,
    parse_field_type,
)

ReadView = Callable[[DocumentViewId], DocumentView | None]
"""Reads a view of a document; returns None if it is not held."""


def definition_of(schema: str, read: ReadView) -> Fields | None:
    """Return the fields of a schema: a system schema's, or an application schema's as its documents say.

    Returns None if the documents are not held, are deleted, or define nothing, or more fields than a schema
    may have. Raises `SchemaMismatchError` if the definition has another name than the schema id.
    """
    parsed = SchemaId.parse(schema)
    if parsed.is_system:
        return SYSTEM_SCHEMAS.get(schema)
    defined = _fields(tuple(map(bytes.fromhex, parsed.operation_ids)), DEFINITION, read)
    views = defined["fields"].value if defined is not None and "fields" in defined else None
    if defined is None or not isinstance(views, tuple) or len(views) > MAX_SCHEMA_FIELDS:
        return None
    name = defined["name"].value if "name" in defined else None
    if name != parsed.name:
        raise SchemaMismatchError(f"the definition of {schema[:200]} has another name: {name!r}")
    fields: dict[str, FieldType] = {}
    for view_id in views:
        field = _field_definition(view_id, read) if isinstance(view_id, tuple) else None
        if field is None:
            return None
        fields[field[0]] = field[1]
    return fields


def problems_of(
    fields: Mapping[str, FieldValue], known: Fields, unread: Collection[str] = ()
) -> dict[str, DocumentError]:
    """Return by field what does not match the schema: unknown fields, wrong types, missing fields.

    `unread` are further fields that are set, whose values are not here.
    """
    names = {*fields, *unread}
    problems: dict[str, DocumentError] = {
        name: UnknownFieldError("the schema has no such field") for name in names - known.keys()
    }
    for name, field in fields.items():
        if name in known and known[name] not in fitting_types(field.value):
            problems[name] = FieldTypeError(f"the schema says {known[name]}, which this value does not fit")
    for name in known.keys() - names:
        problems[name] = MissingFieldError("no operation sets this field of the schema")
    return dict(sorted(problems.items()))


def _field_definition(view_id: DocumentViewId, read: ReadView) -> tuple[str, FieldType] | None:
    fields = _fields(view_id, FIELD_DEFINITION, read) or {}
    name, spelled = (fields[key].value if key in fields else None for key in ("name", "type"))
    field_type = parse_field_type(spelled) if isinstance(spelled, str) else None
    if field_type is None or not isinstance(name, str) or not is_field_name(name):
        return None
    return name, field_type


def _fields(view_id: DocumentViewId, schema: str, read: ReadView) -> Mapping[str, FieldValue] | None:
    view = read(view_id) if view_id else None
    return None if view is None or view.schema_id != schema else view.fields
