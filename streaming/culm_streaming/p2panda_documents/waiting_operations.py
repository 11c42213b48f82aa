"""Operations of a document that wait for others of it, with their values, unless these are long."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import cbor2

from culm_models.bamboo.hashes import HASH_SIZE
from culm_models.p2panda.operations.identifiers import OperationId
from culm_streaming.p2panda_documents.rows import OperationRow, as_operation
from culm_streaming.stateful.job_state import JobState, Variable

WAITING: Final[Variable[bytes]] = Variable("waiting", "document binary")
_MAX_VALUES_BYTES: Final = 1_024
"""Bytes of an operation's values that are kept while it waits; others are read from `logs` again."""
MAX_WAITING_BYTES: Final = 4_194_304
"""Bytes of all operations of a document that wait: each may name thousands of others and of fields."""


class ArrivedOperation(NamedTuple):
    """An operation of a log. Its `fields` are missing if they have to be read from `logs`."""

    log: bytes
    operation: OperationRow
    has_values: bool = True


def load_waiting(store: JobState, document: bytes) -> list[ArrivedOperation]:
    """Return the waiting operations of a document, by its short id."""
    blob = store.load(WAITING, document)
    return (
        []
        if blob is None
        else [
            ArrivedOperation(log, as_operation(operation), kept) for log, operation, kept in cbor2.loads(blob)
        ]
    )


def save_waiting(store: JobState, document: bytes, waiting: Sequence[ArrivedOperation]) -> None:
    """Replace the waiting operations of a document."""
    store.save(WAITING, document, cbor2.dumps(list(map(_reduced, waiting))) if waiting else None)


def size_of(arrival: ArrivedOperation) -> int:
    """Return the number of bytes that an operation takes while it waits, apart from a few."""
    operation = _reduced(arrival).operation
    fields = (len(name.encode()) + len(value) for name, value in (operation.fields or {}).items())
    return HASH_SIZE * len(operation.previous) + sum(fields)


def missing(waiting: Iterable[ArrivedOperation], known: Iterable[OperationId]) -> set[OperationId]:
    """Return what waiting operations follow and is neither among them nor among the `known` ones."""
    waiting = list(waiting)
    followed = {previous for arrival in waiting for previous in arrival.operation.previous}
    followed.difference_update(known)
    return followed.difference(arrival.operation.operation_id for arrival in waiting)


def _reduced(arrival: ArrivedOperation) -> ArrivedOperation:
    fields = arrival.operation.fields
    if fields is None or sum(map(len, fields.values())) <= _MAX_VALUES_BYTES:
        return arrival
    return ArrivedOperation(
        arrival.log, arrival.operation._replace(fields=dict.fromkeys(fields, b"")), has_values=False
    )
