"""Documents with the types of their fields, and what does not match their schema (p2panda, "documents").

Peers' stores and readers of Kafka hold documents in different ways. `Typing` reads both by `HeldDocuments`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from culm_models.p2panda.documents.document import DocumentView
from culm_models.p2panda.documents.errors import MissingRelationError
from culm_models.p2panda.documents.schemas import definition_of, problems_of
from culm_models.p2panda.errors import P2pandaError, SchemaMismatchError
from culm_models.p2panda.operations.identifiers import DocumentId, DocumentViewId, OperationId
from culm_models.p2panda.operations.schema import Fields, FieldType

SCHEMA_PROBLEM: Final = "(schema)"
"""Key of a problem of the schema; no field has such a name."""
MAX_CACHED_BYTES: Final = 8 * 1024 * 1024
"""Memory for cached schemas, about: anybody may send documents of new schemas, and their definitions."""
_BYTES_PER_ITEM: Final = 128


class HeldDocuments(Protocol):
    """Lookups in the documents of a store or of a reader of Kafka."""

    def view(self, view_id: DocumentViewId) -> DocumentView | None:
        """Return a view of a document with all of its values; None if it is not held."""
        ...

    def has_document(self, document_id: DocumentId) -> bool:
        """Return whether a document is held."""
        ...

    def has_operation(self, operation_id: OperationId) -> bool | None:
        """Return whether an operation is held; None if that is not known."""
        ...


class Checked(NamedTuple):
    """The types of a document's fields, and what does not match them (see `TypedDocument`)."""

    types: Fields | None
    problems: Mapping[str, P2pandaError]
    unchecked: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TypedDocument:
    """A document with what its operations say about it.

    `types` are the types of its fields if the definition of its schema is held, else None. `operations` is
    the number of those that are applied, `waiting` the number of those that wait for `missing` ones, and
    `refused` has the codes of those without effect. `problems` are fields that do not match the schema, and
    relations to documents that are not held; `SCHEMA_PROBLEM` stands for the schema itself. `unchecked` are
    fields of which not everything is known that a check needs.
    """

    view: DocumentView
    types: Mapping[str, FieldType] | None
    operations: int
    waiting: int
    missing: tuple[OperationId, ...]
    refused: Mapping[OperationId, str]
    problems: Mapping[str, P2pandaError]
    unchecked: tuple[str, ...]


class Typing:
    """Looks up the schemas of held documents, and checks documents against them. Caches the schemas."""

    def __init__(self, held: HeldDocuments) -> None:
        self._held = held
        self._fields: dict[str, Fields | None] = {}
        self._cached_bytes = 0

    def fields_of(self, schema: str) -> Fields | None:
        """Return the fields of a schema; None if its definition is not held.

        Raises `SchemaMismatchError` if the definition has another name than the schema id.
        """
        if schema in self._fields:
            return self._fields[schema]
        fields = definition_of(schema, self._held.view)
        self._fields[schema] = fields
        self._cached_bytes += _size_of(schema, fields)
        while self._cached_bytes > MAX_CACHED_BYTES:
            self._forget(next(iter(self._fields)))
        return fields

    def forget_unknown(self) -> None:
        """Forget that schemas were not held. A definition that is held never changes."""
        for schema in [schema for schema, fields in self._fields.items() if fields is None]:
            self._forget(schema)

    def _forget(self, schema: str) -> None:
        self._cached_bytes -= _size_of(schema, self._fields.pop(schema))

    def check(self, view: DocumentView, unread: Collection[str] = ()) -> Checked:
        """Return the types of a document's fields, and what does not match them.

        `unread` are fields that are set, but whose values are not in the view.
        """
        try:
            types = self.fields_of(view.schema_id)
        except SchemaMismatchError as error:
            # Anybody may send such a document.
            return Checked(None, {SCHEMA_PROBLEM: error}, ())
        if types is None or view.fields is None:
            return Checked(types, {}, ())
        problems: dict[str, P2pandaError] = dict(problems_of(view.fields, types, unread))
        unchecked = {name for name in unread if name not in problems}
        for name, field in view.fields.items():
            if name in problems or not types[name].endswith(("relation", "relation_list")):
                continue
            related = list(_related(field.value))
            if types[name].startswith("pinned"):
                held = [self._held.has_operation(operation_id) for operation_id in related]
            else:
                held = [self._held.has_document(document_id) for document_id in related]
            missing = [i for i, is_held in zip(related, held, strict=True) if is_held is False]
            if missing:
                problems[name] = MissingRelationError(
                    f"{len(missing)} of the documents that it names are not here: {missing[0].hex()}"
                )
            elif None in held:
                unchecked.add(name)
        return Checked(types, dict(sorted(problems.items())), tuple(sorted(unchecked)))


def _size_of(schema: str, fields: Fields | None) -> int:
    """Return about how much memory a cached schema takes."""
    return len(schema) + sum(map(len, fields or ())) + _BYTES_PER_ITEM * (1 + len(fields or ()))


def _related(value: object) -> Iterator[OperationId]:
    """Return the operation ids in the value of a relation of any kind."""
    if isinstance(value, bytes):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from _related(part)
