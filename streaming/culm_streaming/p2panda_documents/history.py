"""The operations of a document in their linear order, as the state keeps them: without their values.

The newest ones are with the document's other state, in `recent`. Earlier ones are in pages of about
`PAGE_SIZE`, read only when an operation arrives that does not follow all heads. Packed operations are CBOR
items one behind the other, so that adding one decodes none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import cbor2

from culm_models.p2panda.operations.identifiers import OperationId
from culm_streaming.errors import StateMissingError
from culm_streaming.stateful.job_state import JobState, Variable

PAGES: Final[Variable[bytes]] = Variable("pages", "document binary, number int")
PAGE_SIZE: Final = 512
"""Number of operations from which on a page gets no further ones."""
PAGE_BYTES: Final = 262_144
"""Size from which on a page gets no further operations, since each may name thousands of others."""
MAX_HISTORY_BYTES: Final = 33_554_432
"""Largest size of pages that are read: unpacked, they take several times as much memory."""
RECENT_BYTES: Final = 2_048
"""Size from which on `recent` is moved to the pages."""

_FOLLOWS_THE_ONE_BEFORE: Final = 0
_DELETES: Final = 0
_OPEN_ARRAY, _BREAK = b"\x9f", b"\xff"


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
) -> bytes:
    """Return an operation packed; `before` is the id of the one before it, or empty."""
    return cbor2.dumps(
        (
            operation_id,
            author,
            _FOLLOWS_THE_ONE_BEFORE if previous == (before,) else previous,
            _DELETES if names is None else names,
            partition,
            offset,
            is_bottleneck,
        )
    )


def pack_history(operations: Iterable[AppliedOperation], before: OperationId) -> list[bytes]:
    """Return operations packed, each by itself; `before` is the id of the one before the first, or empty."""
    packed: list[bytes] = []
    for operation in operations:
        packed.append(packed_item(*operation, before))
        before = operation.id
    return packed


def unpack_history(packed: bytes) -> list[AppliedOperation]:
    """Return the operations of a whole history, joined."""
    operations: list[AppliedOperation] = []
    before = b""
    for operation_id, author, previous, names, partition, offset, is_bottleneck in cbor2.loads(
        _OPEN_ARRAY + packed + _BREAK
    ):
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


def read_pages(store: JobState, document: bytes, pages: Sequence[int]) -> bytes | None:
    """Return the packed operations of all pages of a document, or None beyond `MAX_HISTORY_BYTES`.

    `pages` has the number of operations of each page.
    """
    read: list[bytes] = []
    size = 0
    for number in range(len(pages)):
        read.append(_read_page(store, document, number))
        size += len(read[-1])
        if size > MAX_HISTORY_BYTES:
            return None
    return b"".join(read)


def append_to_pages(
    store: JobState, document: bytes, pages: Sequence[int], packed: Iterable[tuple[bytes, int]]
) -> list[int]:
    """Add packed operations to the pages, in pieces, each with the number of its operations.

    Returns the number of operations of each page.
    """
    kept, page, count = list(pages), b"", 0
    if kept and kept[-1] < PAGE_SIZE:
        last = _read_page(store, document, len(kept) - 1)
        if len(last) < PAGE_BYTES:
            page, count = last, kept.pop()
    return _write_pages(store, document, kept, [(page, count), *packed])


def write_pages(
    store: JobState, document: bytes, pages: Sequence[int], first: int, packed: Iterable[bytes]
) -> list[int]:
    """Replace the pages from number `first` on; returns the number of operations of each page."""
    written = _write_pages(store, document, list(pages[:first]), ((piece, 1) for piece in packed))
    for number in range(len(written), len(pages)):
        store.save(PAGES, (document, number), None)
    return written


def _write_pages(
    store: JobState, document: bytes, pages: list[int], packed: Iterable[tuple[bytes, int]]
) -> list[int]:
    """Write new pages behind `pages`; returns the number of operations of each page."""
    page: list[bytes] = []
    count = size = 0
    for piece, operations in packed:
        page.append(piece)
        count += operations
        size += len(piece)
        if count >= PAGE_SIZE or size >= PAGE_BYTES:
            store.save(PAGES, (document, len(pages)), b"".join(page))
            pages.append(count)
            page, count, size = [], 0, 0
    if count:
        store.save(PAGES, (document, len(pages)), b"".join(page))
        pages.append(count)
    return pages


def page_of(pages: Sequence[int], position: int) -> tuple[int, int]:
    """Return the number of the page that has the operation at a position, and the position of its first."""
    first = 0
    for number, count in enumerate(pages):
        if position < first + count:
            return number, first
        first += count
    raise StateMissingError(f"position {position} is in none of {len(pages)} pages")


def _read_page(store: JobState, document: bytes, number: int) -> bytes:
    blob = store.load(PAGES, (document, number))
    if blob is None:
        raise StateMissingError(f"page {number} of the document {document.hex()} is missing")
    return blob
