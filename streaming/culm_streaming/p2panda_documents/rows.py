"""The packed rows that the job moves: operations by log, and by document once it is known.

Operations travel as one blob for each log, which only `step` opens.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import cbor2

from culm_models.bamboo.hashes import YASMF
from culm_models.p2panda.operations.identifiers import DocumentId, OperationId
from culm_streaming.progress import Waiting
from culm_streaming.stateful.packed_rows import PackedRows

SHORT_ID_SIZE: Final = 16
"""Size of the part of an id by which state finds an operation, log or document."""
_PREFIX_SIZE: Final = len(YASMF.prefix)
_new_tuple = tuple.__new__  # by itself, a NamedTuple takes several times as long to make


class OperationRow(NamedTuple):
    """An operation. `previous` is empty for a create, `fields` is None for a delete.

    `fields` has the CBOR of each value. `partition` and `offset` are the place in `logs`.
    """

    operation_id: OperationId
    previous: tuple[OperationId, ...]
    fields: dict[str, bytes] | None
    partition: int
    offset: int


class LogRows(NamedTuple):
    """Operations of one log and schema, in sequence order.

    `starts_with` is empty unless the log's first entry is among them. If that entry `creates` the document,
    `starts_with` is the id of its operation, otherwise the id of the first operation that it follows.
    `short_ids` are the short ids of the operations.
    """

    log: bytes
    schema_id: str
    starts_with: OperationId
    creates: bool
    short_ids: bytes
    operations: bytes


class DocumentRows(NamedTuple):
    """Operations of one log and schema that belong to a document."""

    document_id: DocumentId
    log: bytes
    schema_id: str
    operations: bytes


class RejectedRow(NamedTuple):
    """A record of `rejected`."""

    key: bytes
    value: bytes


@dataclass(slots=True)
class ArrivedRows(PackedRows):
    """Input of the first stage, of all tasks."""

    logs: list[LogRows] = field(default_factory=list)
    refused: list[RejectedRow] = field(default_factory=list)


@dataclass(slots=True)
class ResolvedRows(PackedRows):
    """Input of one shard's second stage."""

    documents: list[DocumentRows] = field(default_factory=list)
    refused: list[RejectedRow] = field(default_factory=list)
    waiting: list[Waiting] = field(default_factory=list)
    """At most one: the logs of the first stage if their number has changed."""


def short_id(operation_id: OperationId) -> bytes:
    """Return the part of an operation's or document's id by which state finds it."""
    return operation_id[_PREFIX_SIZE : _PREFIX_SIZE + SHORT_ID_SIZE]


def pack_operations(rows: Iterable[OperationRow]) -> bytes:
    """Return operations as bytes."""
    return cbor2.dumps(list(rows))


def unpack_operations(packed: bytes) -> list[OperationRow]:
    """Return the operations of `pack_operations`."""
    return list(map(as_operation, cbor2.loads(packed)))


def as_operation(items: Sequence[Any]) -> OperationRow:
    """Return the operation of decoded items."""
    operation_id, previous, fields, partition, offset = items
    return _new_tuple(OperationRow, (operation_id, tuple(previous), fields, partition, offset))
