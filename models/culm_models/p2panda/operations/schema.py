"""Schemas: the fields of documents, and the check of an operation's fields (p2panda, "schemas").

p2panda nodes refuse an operation that does not match its schema, and with it the rest of its log. Entries
from remotes are not checked here: they are accepted whether their schema is known or not. Entries to be
signed are checked, because a signature cannot be taken back. The rules of the system schemas are part of this
module; `documents.schemas` reads an application schema from the documents that define it.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final, Literal, get_args

from culm_models.p2panda.errors import SchemaMismatchError
from culm_models.p2panda.operations import identifiers
from culm_models.p2panda.operations.identifiers import SchemaId, SchemaIdError
from culm_models.p2panda.operations.operation import Action, Value

FieldType = Literal[
    "str",
    "int",
    "float",
    "bool",
    "bytes",
    "relation",
    "relation_list",
    "pinned_relation",
    "pinned_relation_list",
]
Fields = Mapping[str, FieldType]
MAX_BLOB_PIECE_BYTES: Final = 256_000

DEFINITION: Final = "schema_definition_v1"
FIELD_DEFINITION: Final = "schema_field_definition_v1"
SYSTEM_SCHEMAS: Final[Mapping[str, Fields]] = {
    DEFINITION: {"name": "str", "description": "str", "fields": "pinned_relation_list"},
    FIELD_DEFINITION: {"name": "str", "type": "str"},
    "blob_v1": {"length": "int", "mime_type": "str", "pieces": "pinned_relation_list"},
    "blob_piece_v1": {"data": "bytes"},
}

FIELD_TYPES: Final[tuple[FieldType, ...]] = get_args(FieldType)
_RELATIONS: Final = tuple(one for one in FIELD_TYPES if "relation" in one)
_SCALARS: Final = tuple(one for one in FIELD_TYPES if one not in _RELATIONS)

_FIELD_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_SCHEMA_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}[A-Za-z0-9]")
_MIME_TYPE: Final = re.compile(r"[a-z-]{1,12}/[a-z0-9]{1,16}(?:[.+|-][a-z0-9]{1,16}){0,6}")
_MAX_DESCRIPTION: Final = 256
MAX_SCHEMA_FIELDS: Final = 1_024


def check_fields(
    action: Action, schema: str, fields: Mapping[str, Value] | None, known: Fields | None
) -> None:
    """Raise `SchemaMismatchError` if p2panda nodes refuse an operation of `schema` with these fields.

    `known` are the fields of an application schema; None if its definition is not held, which leaves only
    the rules that hold for every schema.
    """
    if SchemaId.parse(schema).is_system:
        if schema not in SYSTEM_SCHEMAS:
            raise SchemaMismatchError(f"{schema} is no system schema that nodes know")
        known = SYSTEM_SCHEMAS[schema]
    if fields is None:
        return
    if action == "create" and not fields:
        raise SchemaMismatchError("a create has no fields")
    for name, value in fields.items():
        if not is_field_name(name):
            raise SchemaMismatchError(
                f"{name[:80]!r} cannot be the name of a field: "
                "up to 64 letters, digits and underscores, a letter first"
            )
        if known is not None and name not in known:
            raise SchemaMismatchError(f"{schema[:80]} has no field {name}, but {', '.join(sorted(known))}")
        _check_value(name, value, None if known is None else known[name])
        if schema in SYSTEM_SCHEMAS:
            _check_rule(schema, name, value)
    missing = sorted(set(known or ()) - set(fields))
    if action == "create" and missing:
        raise SchemaMismatchError(f"a create has all fields of its schema; missing: {', '.join(missing)}")


def _check_value(name: str, value: Value, wanted: FieldType | None) -> None:
    fitting = fitting_types(value)
    if not fitting:
        raise SchemaMismatchError(
            f"{name}: a pinned relation list holds view ids: operation ids, sorted, each once, at least one"
        )
    if wanted is not None and wanted not in fitting:
        raise SchemaMismatchError(f"{name} is a {wanted}, which this value does not fit")


def fitting_types(value: Value) -> frozenset[FieldType]:
    """Return the types that a value matches: the encoding does not distinguish all of them."""
    if isinstance(value, bool):
        return frozenset({"bool"})
    if isinstance(value, int):
        return frozenset({"int"})
    if isinstance(value, float):
        return frozenset({"float"})
    if isinstance(value, str):
        return frozenset({"str"})
    if isinstance(value, bytes):
        return frozenset({"bytes", "relation"} if _is_id(value) else {"bytes"})
    if not value:
        return frozenset({"relation_list", "pinned_relation_list"})
    ids = [element for element in value if isinstance(element, bytes)]
    if len(ids) == len(value):
        return frozenset({"relation_list", "pinned_relation"} if _is_view(tuple(ids)) else {"relation_list"})
    views = [element for element in value if isinstance(element, tuple)]
    return frozenset({"pinned_relation_list"} if all(map(_is_view, views)) else ())


def _is_id(value: bytes) -> bool:
    return _holds(identifiers.check_operation_id, value)


def _is_view(value: tuple[bytes, ...]) -> bool:
    return _holds(identifiers.check_view_id, value)


def _check_rule(schema: str, name: str, value: Value) -> None:
    """Raise `SchemaMismatchError` if a system schema does not allow this value of the right type."""
    rule = _RULES.get((schema, name))
    if rule is not None and not rule[0](value):
        raise SchemaMismatchError(f"{name} of a {schema} is {rule[1]}")


def _is_field_type(value: object) -> bool:
    return isinstance(value, str) and parse_field_type(value) is not None


def is_field_name(text: str) -> bool:
    """Return whether a field of an application schema can have this name."""
    return _FIELD_NAME.fullmatch(text) is not None


def parse_field_type(text: str) -> FieldType | None:
    """Return the type in a field definition: `int`, or `relation(SCHEMA_ID)`; None for other texts."""
    name, parenthesis, rest = text.partition("(")
    if not parenthesis:
        return next((field_type for field_type in _SCALARS if field_type == name), None)
    try:
        is_canonical = f"{identifiers.canonical_text(rest[:-1])})" == rest
    except SchemaIdError:
        return None
    return next((field_type for field_type in _RELATIONS if field_type == name and is_canonical), None)


def _matches(pattern: re.Pattern[str]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, str) and pattern.fullmatch(value) is not None


def _up_to(limit: int) -> Callable[[object], bool]:
    return lambda value: isinstance(value, (str, bytes, tuple)) and len(value) <= limit


_RULES: Final[Mapping[tuple[str, str], tuple[Callable[[object], bool], str]]] = {
    (DEFINITION, "name"): (
        _matches(_SCHEMA_NAME),
        "2 to 64 letters, digits and underscores, a letter first and no underscore last",
    ),
    (DEFINITION, "description"): (_up_to(_MAX_DESCRIPTION), f"at most {_MAX_DESCRIPTION} characters"),
    (DEFINITION, "fields"): (_up_to(MAX_SCHEMA_FIELDS), f"a list of at most {MAX_SCHEMA_FIELDS} fields"),
    (FIELD_DEFINITION, "name"): (
        _matches(_FIELD_NAME),
        "up to 64 letters, digits and underscores, a letter first",
    ),
    (FIELD_DEFINITION, "type"): (
        _is_field_type,
        f"one of {', '.join(_SCALARS)}, or one of {', '.join(_RELATIONS)} with a schema id in parentheses",
    ),
    ("blob_v1", "mime_type"): (_matches(_MIME_TYPE), "a media type in lower case, such as image/png"),
    ("blob_piece_v1", "data"): (_up_to(MAX_BLOB_PIECE_BYTES), f"at most {MAX_BLOB_PIECE_BYTES} bytes"),
}
"""By schema and field: the check of a value, and the description of allowed values."""


def _holds(check: Callable[..., None], value: object) -> bool:
    try:
        check(value)
    except identifiers.DocumentViewIdError:
        return False
    return True
