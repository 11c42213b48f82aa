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


def read_pages(store: JobState, document: bytes, pages: Sequence[int]) -> bytes:
    """Return the packed operations of all pages of a document; `pages` has the number of those of each."""
    return b"".join([_read_page(store, document, number) for number in range(len(pages))])


def append_to_pages(
    store: JobState, document: bytes, pages: Sequence[int], packed: bytes, count: int
) -> list[int]:
    """Add `count` packed operations to the pages; returns the number of operations of each page."""
    number = len(pages)
    if pages and pages[-1] < PAGE_SIZE:
        number -= 1
        packed = _read_page(store, document, number) + packed
        count += pages[number]
    store.save(PAGES, (document, number), packed)
    return [*pages[:number], count]


def write_pages(store: JobState, document: bytes, kept: Sequence[int], packed: Sequence[bytes]) -> list[int]:
    """Replace the pages behind the `kept` ones; returns the number of operations of each page.

    A document has never fewer pages than before, since it has never fewer operations.
    """
    pages = list(kept)
    for at in range(0, len(packed), PAGE_SIZE):
        page = packed[at : at + PAGE_SIZE]
        store.save(PAGES, (document, len(pages)), b"".join(page))
        pages.append(len(page))
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
