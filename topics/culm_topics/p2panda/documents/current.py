"""The present documents, as records of `documents` have them, with the types of their fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Final

from culm_models.p2panda.documents.document import DocumentView, FieldValue
from culm_models.p2panda.documents.errors import UnknownViewError
from culm_models.p2panda.documents.typed import TypedDocument, Typing
from culm_models.p2panda.operations.identifiers import DocumentId, DocumentViewId, OperationId
from culm_models.p2panda.operations.reader import Value
from culm_models.p2panda.operations.schema import DEFINITION, FIELD_DEFINITION, SYSTEM_SCHEMAS
from culm_topics.p2panda.documents.document_file import DocumentFile
from culm_topics.p2panda.documents.errors import ValueMissing, ValueUnread, ViewTooLarge
from culm_topics.p2panda.documents.log_operations import LogOperations
from culm_topics.p2panda.documents.record import DocumentField, DocumentRecord
from culm_topics.p2panda.documents.selection import DocumentSelection

_LONG_VALUES: Final = {DEFINITION: ("fields",)}
"""By schema, the fields that define something and whose values may be too long for a record."""
_MAX_DEFINITIONS: Final = 4_096
"""Largest number of definitions of fields that are cached."""
_MAX_LENGTH: Final = 4_096
"""Largest length of a name or a type in these."""
_KEY_SIZE: Final = 32


@dataclass(frozen=True, slots=True)
class CurrentDocument(TypedDocument):
    """A document as its record has it. `unread` are fields whose values are only in `logs`.

    `document["name"]` is the value of a field. It raises `KeyError` if no operation has set the field, and
    `ValueUnread` for a value that was not read.
    """

    unread: Mapping[str, DocumentField]

    @property
    def id(self) -> DocumentId:
        """The document's id: that of the operation that created it."""
        return self.view.document_id

    @property
    def is_deleted(self) -> bool:
        """Whether an operation has deleted the document."""
        return self.view.fields is None

    def __getitem__(self, name: str) -> Value:
        if name in self.unread:
            raise ValueUnread(f"the value of {name[:100]!r} is only in `logs`")
        return (self.view.fields or {})[name].value


class CurrentDocuments:
    """The documents in a file; what their records do not contain is read from `logs`.

    Schemas are looked up among the documents. One that arrives late types its documents from then on.
    """

    def __init__(self, file: DocumentFile, operations: LogOperations) -> None:
        self._file = file
        self._operations = operations
        self._definitions: dict[bytes, DocumentView] = {}
        """Definitions of fields that were read from `logs`, without their view ids, by a hash of these."""
        self.typing = Typing(self)

    def document(self, document_id: DocumentId) -> CurrentDocument | None:
        """Return a document, without the values that are only in `logs`; None if there is no record of it."""
        record = self._file.record(document_id)
        return None if record is None else self._typed(document_id, record)

    def ids(
        self, selection: DocumentSelection, since: Mapping[int, int] | None = None
    ) -> Iterator[DocumentId]:
        """Yield the ids of the documents that `documents` yields."""
        return self._file.ids(selection, since)

    def documents(
        self, selection: DocumentSelection, since: Mapping[int, int] | None = None
    ) -> Iterator[CurrentDocument]:
        """Yield the selected documents by id; with `since`, those with records from these offsets on."""
        for document_id in self.ids(selection, since):
            document = self.document(document_id)
            if document is not None:
                yield document

    def complete(self, document: CurrentDocument) -> CurrentDocument:
        """Return a document with all of its values, and checked with them.

        Raises `ValueMissing`, `ViewTooLarge`.
        """
        if not document.unread:
            return document
        view = self._with_values(document.view, document.unread)
        checked = self.typing.check(view)
        return replace(
            document,
            view=view,
            types=checked.types,
            problems=checked.problems,
            unchecked=checked.unchecked,
            unread={},
        )

    def view_at(self, view_id: DocumentViewId) -> DocumentView:
        """Return a document at these heads, by a scan of `logs` if its operations are not known.

        Raises the errors of `LogOperations.view`.
        """
        present = self._present_view(view_id)
        if present is not None:
            return present
        try:
            return self._operations.view(view_id, scan=True)
        finally:
            # The scan may have passed the operations of definitions.
            self.typing.forget_unknown()

    def value(self, field: DocumentField) -> Value:
        """Return the value of a field, from its record or from `logs`. Raises `ValueMissing`."""
        value = field.read()
        return self._operations.values([field])[field.name] if value is None else value

    def view_without_scan(self, view_id: DocumentViewId) -> DocumentView | None:
        """Return a view without a scan: a present one, or one whose operations are known."""
        try:
            return self._present_view(view_id) or self._operations.view(view_id, scan=False)
        except (UnknownViewError, ValueMissing, ViewTooLarge):
            return None

    # Lookups for typing (`HeldDocuments`).

    def view(self, view_id: DocumentViewId) -> DocumentView | None:
        """Return a view of a definition, like `view_without_scan`, without values that define nothing.

        Anybody may name a thousand views as the definition of a document's schema. So only the values of a
        definition's fields are read from `logs`, and views that were read there are cached.
        """
        key = blake2b(b"".join(view_id), digest_size=_KEY_SIZE).digest()
        cached = self._definitions.get(key)
        if cached is not None:
            return replace(cached, view_id=view_id)
        try:
            present = self._file.at_view(view_id)
            if present is not None:
                view, unread = _view(*present)
                wanted = _LONG_VALUES.get(view.schema_id, ())
                return self._with_values(view, {name: unread[name] for name in wanted if name in unread})
            view = self._operations.definition(view_id)
        except (UnknownViewError, ValueMissing, ViewTooLarge):
            return None
        if view.schema_id == FIELD_DEFINITION and view.fields is not None:
            view = replace(
                view, fields={name: value for name, value in view.fields.items() if _defines(name, value)}
            )
            if len(self._definitions) >= _MAX_DEFINITIONS:
                del self._definitions[next(iter(self._definitions))]
            self._definitions[key] = replace(view, view_id=())
        return view

    def has_document(self, document_id: DocumentId) -> bool:
        """Return whether there is a record of a document."""
        return self._file.has(document_id)

    def has_operation(self, operation_id: OperationId) -> bool | None:
        """Return True if an operation is known, and None otherwise: `logs` may have others."""
        return self._file.operations.has(operation_id) or self._file.has(operation_id) or None

    def _present_view(self, view_id: DocumentViewId) -> DocumentView | None:
        present = self._file.at_view(view_id)
        if present is None:
            return None
        view, unread = _view(*present)
        return self._with_values(view, unread)

    def _with_values(self, view: DocumentView, unread: Mapping[str, DocumentField]) -> DocumentView:
        if not unread:
            return view
        values = self._operations.values(unread.values())
        read = {
            name: FieldValue(field.operation_id, field.author, values[name]) for name, field in unread.items()
        }
        return replace(view, fields={**(view.fields or {}), **read})

    def _typed(self, document_id: DocumentId, record: DocumentRecord) -> CurrentDocument:
        view, unread = _view(document_id, record)
        checked = self.typing.check(view, unread)
        return CurrentDocument(
            view=view,
            types=checked.types,
            operations=record.version,
            waiting=record.waiting,
            missing=record.missing,
            refused={problem.operation_id: problem.code for problem in record.problems},
            problems=checked.problems,
            unchecked=checked.unchecked,
            unread=unread,
        )


def _defines(name: str, field: FieldValue) -> bool:
    """Return whether a field of a definition of a field defines something."""
    value = field.value
    return name in SYSTEM_SCHEMAS[FIELD_DEFINITION] and isinstance(value, str) and len(value) <= _MAX_LENGTH


def _view(document_id: DocumentId, record: DocumentRecord) -> tuple[DocumentView, dict[str, DocumentField]]:
    """Return a record's view with the values that it contains, and the fields whose values it does not."""
    unread: dict[str, DocumentField] = {}
    fields: dict[str, FieldValue] | None = None
    if record.state == "current":
        fields = {}
        for field in record.fields:
            value = field.read()
            if value is None:
                unread[field.name] = field
            else:
                fields[field.name] = FieldValue(field.operation_id, field.author, value)
    return DocumentView(document_id, record.schema_id, record.owner, record.view_id, fields), unread
