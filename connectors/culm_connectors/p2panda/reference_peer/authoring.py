"""Writing to one's own logs: operations become signed entries with the right numbers and links.

One log per document: an author's first operation on a document opens a new log, which stays the one for all
of its operations on it (p2panda, "one log per public key and document").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from culm_connectors.errors import ConnectorError
from culm_connectors.logs.index.store import LmdbLogStore
from culm_connectors.p2panda.reference_peer.documents import StoredDocuments
from culm_models.bamboo import Entry, lipmaa, needs_skiplink, sign_entry
from culm_models.bamboo.checks import CheckedEntry
from culm_models.bamboo.hashes import HASH_SIZE
from culm_models.keys import KeyPair
from culm_models.p2panda.ingest import Ingest
from culm_models.p2panda.operations.identifiers import OperationId, SchemaId, canonical_text
from culm_models.p2panda.operations.operation import (
    Action,
    CheckedOperation,
    Value,
    check_entry,
    encode_operation,
    peek,
)
from culm_models.p2panda.operations.schema import check_fields


class AuthoringError(ConnectorError):
    """An operation that the author's logs cannot take."""

    code: ClassVar[str] = "peer.authoring"


@dataclass(frozen=True, slots=True)
class Draft:
    """An operation before it has a place in a log.

    `document_id` names the document of an update or delete; `previous` are the operations it follows, by
    default the author's own latest one on that document.
    """

    action: Action
    schema_id: str
    fields: Mapping[str, Value] | None = None
    document_id: bytes | None = None
    previous: tuple[bytes, ...] | None = None


@dataclass(slots=True)
class Author:
    """Signs operations of one key on top of what a store holds, as far as `ingest` would take them.

    Signed entries are staged there and count as held: entries made by one call may follow each other. Whoever
    calls stores them, or discards them.
    """

    key_pair: KeyPair
    store: LmdbLogStore
    ingest: Ingest

    def sign(self, drafts: Iterable[Draft]) -> list[CheckedOperation]:
        """Signed and staged entries for these operations, in order; all of them or none.

        Raises `AuthoringError`, what encoding a wrong operation raises, and what `Ingest` refuses one with.
        """
        signed: list[CheckedOperation] = []
        try:
            for draft in drafts:
                log_id = self._log_of(draft)
                signed.append(self._sign(draft, self._next_log_id() if log_id is None else log_id))
        except BaseException:
            self.ingest.discard(signed)
            raise
        return signed

    def _next_log_id(self) -> int:
        public_key = self.key_pair.public_key
        staged = max(self.ingest.staged_logs(public_key), default=-1)
        return max(self.store.next_log_id(public_key), staged + 1)

    def _log_of(self, draft: Draft) -> int | None:
        if draft.action == "create":
            if draft.document_id is not None:
                raise AuthoringError("a create makes a new document and names none")
            return None
        if draft.document_id is None:
            article = "an" if draft.action == "update" else "a"
            raise AuthoringError(
                f"{article} {draft.action} names the document that it changes",
                hint="name it by the id of its create: --document",
            )
        return self.ingest.log_of(self.key_pair.public_key, draft.document_id)

    def _sign(self, draft: Draft, log_id: int) -> CheckedOperation:
        public_key = self.key_pair.public_key
        height = self.ingest.height(public_key, log_id)
        previous = draft.previous
        if draft.action != "create" and previous is None:
            latest = self.ingest.hash_at(public_key, log_id, height) if height else None
            if latest is None:
                raise AuthoringError(
                    "nothing of this author's own to follow",
                    hint="name the operations it follows: --previous",
                )
            previous = (latest,)
        schema = canonical_text(draft.schema_id)
        if draft.previous is not None:
            self._check_document(draft.previous, draft.document_id, schema)
        fields = self._checked_fields(draft, schema)
        operation = encode_operation(draft.action, schema, previous=previous, fields=fields)
        seq_num = height + 1
        skiplink = (
            self.ingest.hash_at(public_key, log_id, lipmaa(seq_num)) if needs_skiplink(seq_num) else None
        )
        backlink = self.ingest.hash_at(public_key, log_id, height) if height else None
        # Nobody can take a signature back: what others would refuse is refused before it is signed.
        unsigned = Entry(public_key, log_id, seq_num, False, skiplink, backlink, len(operation), b"", b"")
        self.ingest.check(CheckedEntry(unsigned, b"", operation, bytes(HASH_SIZE), peek(operation)))
        entry = sign_entry(self.key_pair, log_id, seq_num, operation, skiplink=skiplink, backlink=backlink)
        checked = check_entry(entry, operation, verify_signature=False)
        self.ingest.stage(checked)
        return checked

    def _checked_fields(self, draft: Draft, schema: str) -> dict[str, Value] | None:
        """The fields, if p2panda nodes take them. Raises `SchemaMismatchError`, `SchemaIdError`."""
        known = StoredDocuments(self.store).fields_of(schema)
        check_fields(draft.action, schema, draft.fields, known)
        return dict(draft.fields) if draft.fields is not None else None

    def _check_document(self, previous: Sequence[bytes], document_id: bytes | None, schema: str) -> None:
        """Raise `AuthoringError` if a previous operation is known to be of another document or schema."""
        for operation_id in previous:
            if self.ingest.document_of(operation_id) not in (None, document_id):
                raise AuthoringError(f"{operation_id.hex()} is an operation of another document")
            operation_place = self.store.place_of(operation_id)
            info = self.store.log_info(*operation_place.log) if operation_place is not None else None
            if info is not None and info.schema_id != schema:
                raise AuthoringError(f"the document has the schema {info.schema_id}")


def has_schema_definition(store: LmdbLogStore, schema_id: str) -> bool:
    """Whether fields are checked against this schema: a system schema, or one whose definition is held."""
    schema = canonical_text(schema_id)
    return SchemaId.parse(schema).is_system or StoredDocuments(store).fields_of(schema) is not None


def is_deleted(store: LmdbLogStore, operation_id: OperationId) -> bool:
    """Return whether a held operation comes after a delete of its document."""
    view = StoredDocuments(store).view((operation_id,))
    return view is not None and view.fields is None


def document_tips(store: LmdbLogStore, document_id: bytes) -> tuple[bytes, ...]:
    """Return a document's operations that no held operation follows: an update should follow them."""
    operations: set[bytes] = set()
    followed: set[bytes] = set()
    for added in StoredDocuments(store).operations(document_id):
        operations.add(added.id)
        followed.update(added.operation.previous or ())
    return tuple(sorted(operations - followed))
