"""Writing to one's own logs: operations become signed entries with the right numbers and links.

One log per document: an author's first operation on a document opens a new log, which stays the one for all
of its operations on it (p2panda, "one log per public key and document").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from culm_connectors.errors import ConnectorError
from culm_connectors.logs.index.store import LmdbLogStore
from culm_models.bamboo import lipmaa, needs_skiplink, sign_entry
from culm_models.keys import KeyPair
from culm_models.p2panda.operations.operation import (
    Action,
    CheckedOperation,
    Operation,
    Value,
    check_entry,
    decode_operation,
    encode_operation,
)
from culm_models.p2panda.operations.schema import check_fields, definition_of
from culm_models.p2panda.operations.schema_id import canonical_text

LogKey = tuple[bytes, int]


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
    """Signs operations of one key on top of what a store holds; nothing is stored here.

    Entries made by one call may follow each other, so what was just signed counts as held.
    """

    key_pair: KeyPair
    store: LmdbLogStore
    _hashes: dict[tuple[int, int], bytes] = field(default_factory=dict)
    _heights: dict[int, int] = field(default_factory=dict)
    _logs: dict[bytes, int] = field(default_factory=dict)

    def sign(self, drafts: Iterable[Draft]) -> list[CheckedOperation]:
        """Signed entries for these operations, in order.

        Raises AuthoringError, and what encoding a wrong operation raises.
        """
        self._hashes.clear()
        self._heights.clear()
        self._logs.clear()
        next_log_id = self.store.next_log_id(self.key_pair.public_key)
        signed: list[CheckedOperation] = []
        for draft in drafts:
            log_id = self._log_of(draft)
            if log_id is None:
                log_id, next_log_id = next_log_id, next_log_id + 1
            checked = self._sign(draft, log_id)
            if draft.action == "create":
                self._logs[checked.hash] = log_id
            elif draft.document_id is not None:
                self._logs[draft.document_id] = log_id
            signed.append(checked)
        return signed

    def _log_of(self, draft: Draft) -> int | None:
        if draft.action == "create":
            if draft.document_id is not None:
                raise AuthoringError("a create makes a new document and names none")
            return None
        if draft.document_id is None:
            raise AuthoringError(f"a {draft.action} names the document it changes")
        log_id = self._logs.get(draft.document_id)
        return (
            log_id if log_id is not None else self.store.log_of(self.key_pair.public_key, draft.document_id)
        )

    def _sign(self, draft: Draft, log_id: int) -> CheckedOperation:
        height = self._height(log_id)
        previous = draft.previous
        if draft.action != "create" and previous is None:
            latest = self._hash_at(log_id, height) if height else None
            if latest is None:
                raise AuthoringError(
                    "nothing of this author's own to follow",
                    hint="name the operations it follows: --previous",
                )
            previous = (latest,)
        operation = encode_operation(
            draft.action,
            canonical_text(draft.schema_id),
            previous=previous,
            fields=self._checked_fields(draft),
        )
        seq_num = height + 1
        entry = sign_entry(
            self.key_pair,
            log_id,
            seq_num,
            operation,
            skiplink=self._hash_at(log_id, lipmaa(seq_num)) if needs_skiplink(seq_num) else None,
            backlink=self._hash_at(log_id, height) if height else None,
        )
        checked = check_entry(entry, operation, verify_signature=False)
        self._hashes[log_id, seq_num] = checked.hash
        self._heights[log_id] = seq_num
        return checked

    def _checked_fields(self, draft: Draft) -> dict[str, Value] | None:
        """The fields, if p2panda nodes take them. Raises `SchemaMismatchError`, `SchemaIdError`."""
        schema = canonical_text(draft.schema_id)
        known = definition_of(schema, self._read_operation)
        check_fields(draft.action, schema, draft.fields, known)
        return dict(draft.fields) if draft.fields is not None else None

    def _read_operation(self, operation_id: bytes) -> Operation | None:
        place = self.store.place_of(operation_id)
        if place is None:
            return None
        ((_, operation),) = self.store.entries(*place.log, place.seq_num, place.seq_num)
        return decode_operation(operation)

    def _height(self, log_id: int) -> int:
        height = self._heights.get(log_id)
        return height if height is not None else self.store.height(self.key_pair.public_key, log_id)

    def _hash_at(self, log_id: int, seq_num: int) -> bytes | None:
        own = self._hashes.get((log_id, seq_num))
        return own if own is not None else self.store.entry_hash(self.key_pair.public_key, log_id, seq_num)


def document_tips(store: LmdbLogStore, document_id: bytes) -> tuple[bytes, ...]:
    """The operations of a document that no held operation follows: what an update of it should follow."""
    operations: set[bytes] = set()
    followed: set[bytes] = set()
    for public_key, log_id, height in store.log_heights(store.schema_ids()):
        info = store.log_info(public_key, log_id)
        if info is None or info.document_id != document_id:
            continue
        for entry, operation in store.entries(public_key, log_id, 1, height):
            operations.add(check_entry(entry, operation, verify_signature=False).hash)
            followed.update(decode_operation(operation).previous or ())
    return tuple(sorted(operations - followed))
