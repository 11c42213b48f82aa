"""The record of a document, from its state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from culm_models.p2panda.documents.errors import PreviousMissingError
from culm_streaming.p2panda_documents.document_state import DocumentState, StoredField
from culm_streaming.p2panda_documents.errors import DocumentFullError
from culm_topics.p2panda.documents.record import (
    MAX_PROBLEMS,
    DocumentField,
    DocumentProblem,
    DocumentRecord,
)

_TOO_MANY_FIELDS: Final = DocumentFullError.code


def document_record(state: DocumentState, *, max_value_bytes: int) -> DocumentRecord:
    """Return the record of a document. Beyond `max_value_bytes`, the longest values are in `logs` only."""
    problems = [(operation_id, PreviousMissingError.code) for operation_id in state.waiting_ids]
    problems += state.refused
    if state.has_too_many_fields and state.fields is not None:
        problems.append((state.document_id, _TOO_MANY_FIELDS))
    fields = state.fields or {}
    omitted = _longest(fields, max_value_bytes)
    return DocumentRecord(
        state.schema_id,
        state.owner,
        "deleted" if state.fields is None else "current",
        state.version,
        tuple(sorted(state.heads)),
        tuple(
            DocumentField(name, b"" if name in omitted else value, operation_id, author, partition, offset)
            for name, (value, operation_id, author, partition, offset) in sorted(fields.items())
        ),
        state.waiting,
        tuple(state.missing),
        tuple(DocumentProblem(*problem) for problem in sorted(problems)[:MAX_PROBLEMS]),
    )


def _longest(fields: Mapping[str, StoredField], max_value_bytes: int) -> set[str]:
    """Return the names of the longest values that must be left out so that the others are short enough."""
    size = sum(len(stored[0]) for stored in fields.values())
    omitted: set[str] = set()
    if size > max_value_bytes:
        for name in sorted(fields, key=lambda name: (-len(fields[name][0]), name)):
            size -= len(fields[name][0])
            omitted.add(name)
            if size <= max_value_bytes:
                break
    return omitted
