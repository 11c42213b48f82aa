"""The documents that a reader selects."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from culm_models.p2panda.operations.identifiers import DocumentId, SchemaId, is_schema_id
from culm_topics.errors import RecordError
from culm_topics.p2panda.documents.record import check_document_key
from culm_topics.records.keys import PUBLIC_KEY_SIZE


@dataclass(frozen=True, slots=True)
class DocumentSelection:
    """All documents, or those that match every filter given (None: no filter).

    `schemas` are schema ids, and names of schemas in any version. `owners` are the public keys of those who
    created the documents.
    """

    schemas: frozenset[str] | None = None
    owners: frozenset[bytes] | None = None
    document_ids: frozenset[DocumentId] | None = None

    @staticmethod
    def of(
        schemas: Iterable[str] | None = None,
        owners: Iterable[bytes] | None = None,
        document_ids: Iterable[DocumentId] | None = None,
    ) -> DocumentSelection:
        """Return a selection. Raises `RecordError` for a public key or a document id that cannot be one."""
        keys = None if owners is None else frozenset(owners)
        if keys is not None and any(len(key) != PUBLIC_KEY_SIZE for key in keys):
            raise RecordError(f"an owner's public key is not {PUBLIC_KEY_SIZE} bytes")
        return DocumentSelection(
            None if schemas is None else frozenset(schemas),
            keys,
            None if document_ids is None else frozenset(map(check_document_key, document_ids)),
        )

    def takes(self, document_id: DocumentId, schema_id: str, owner: bytes) -> bool:
        """Return whether a document is selected."""
        if self.document_ids is not None and document_id not in self.document_ids:
            return False
        if self.owners is not None and owner not in self.owners:
            return False
        return self.takes_schema(schema_id)

    def takes_schema(self, schema_id: str) -> bool:
        """Return whether documents of a schema may be selected."""
        if self.schemas is None:
            return True
        return schema_id in self.schemas or SchemaId.parse(schema_id).name in self.schemas

    def schema_names(self) -> frozenset[str] | None:
        """Return the names of the schemas that may be selected; None for all."""
        if self.schemas is None:
            return None
        return frozenset(SchemaId.parse(text).name if is_schema_id(text) else text for text in self.schemas)
