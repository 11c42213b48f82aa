"""The operations of a document in their linear order, as the state keeps them: without their values.

The newest ones are with the document's other state, in `recent`. Earlier ones are in pages of `PAGE_SIZE`,
which are read only when an operation arrives that does not follow all heads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

import cbor2

from culm_models.p2panda.operations.identifiers import OperationId
from culm_streaming.errors import StateMissingError
from culm_streaming.stateful.job_state import JobState, Variable

PAGES: Final[Variable[bytes]] = Variable("pages", "document binary, number int")
PAGE_SIZE: Final = 512
RECENT_SIZE: Final = 16
"""Number of operations from which on `recent` is moved to the pages."""

_FOLLOWS_THE_ONE_BEFORE: Final = 0
_DELETES: Final = 0


class AppliedOperation(NamedTuple):
    """An operation that is applied: `names` are the fields that it sets; None if it deletes the document.

    `partition` and `offset` are its place in `logs`. A bottleneck is applied once, and when it was placed no
    operation behind it named one before it.
    """

    id: OperationId
    author: bytes
    previous: tuple[OperationId, ...]
    names: tuple[str, ...] | None
    partition: int
    offset: int
    is_bottleneck: bool


def packed_item(
    operation_id: OperationId,
    author: bytes,
    previous: tuple[OperationId, ...],
    names: tuple[str, ...] | None,
    partition: int,
    offset: int,
    is_bottleneck: bool,
    before: OperationId,
) -> list[Any]:
    """Return an operation as CBOR items; `before` is the id of the one before it, or empty."""
    return [
        operation_id,
        author,
        _FOLLOWS_THE_ONE_BEFORE if previous == (before,) else previous,
        _DELETES if names is None else names,
        partition,
        offset,
        is_bottleneck,
    ]


def pack_history(operations: Iterable[AppliedOperation], before: OperationId) -> list[list[Any]]:
    """Return operations as CBOR items; `before` is the id of the one before the first, or empty."""
    packed: list[list[Any]] = []
    for operation in operations:
        packed.append(packed_item(*operation, before))
        before = operation.id
    return packed


def unpack_history(packed: Iterable[Sequence[Any]], before: OperationId) -> list[AppliedOperation]:
    """Return the operations of `pack_history`."""
    operations: list[AppliedOperation] = []
    for operation_id, author, previous, names, partition, offset, is_bottleneck in packed:
        operations.append(
            AppliedOperation(
                operation_id,
                author,
                (before,) if previous == _FOLLOWS_THE_ONE_BEFORE else tuple(previous),
                None if names == _DELETES else tuple(names),
                partition,
                offset,
                is_bottleneck,
            )
        )
        before = operation_id
    return operations


def read_pages(store: JobState, document: bytes, count: int) -> list[list[Any]]:
    """Return the packed operations of all pages of a document that has `count` operations in pages."""
    pages = range(-(-count // PAGE_SIZE))
    return list(chain.from_iterable(_read_page(store, document, number) for number in pages))


def append_to_pages(store: JobState, document: bytes, count: int, packed: Sequence[list[Any]]) -> int:
    """Add packed operations to the pages; returns the new number of operations in pages."""
    start = count - count % PAGE_SIZE
    last = _read_page(store, document, start // PAGE_SIZE) if start < count else []
    return write_pages(store, document, start, [*last, *packed])


def write_pages(store: JobState, document: bytes, start: int, packed: Sequence[list[Any]]) -> int:
    """Replace the pages from position `start` on, a multiple of `PAGE_SIZE`.

    Returns the new number of operations in pages. A document has never fewer of them than before.
    """
    for at in range(0, len(packed), PAGE_SIZE):
        store.save(PAGES, (document, (start + at) // PAGE_SIZE), cbor2.dumps(packed[at : at + PAGE_SIZE]))
    return start + len(packed)


def _read_page(store: JobState, document: bytes, number: int) -> list[list[Any]]:
    blob = store.load(PAGES, (document, number))
    if blob is None:
        raise StateMissingError(f"page {number} of the document {document.hex()} is missing")
    page: list[list[Any]] = cbor2.loads(blob)
    return page
