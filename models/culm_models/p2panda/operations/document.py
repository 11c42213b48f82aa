"""Documents and their views (p2panda, "documents").

An operation's id is the hash of the entry that carries it, and a document's id is the id of the operation
that created it: both are 34 raw bytes. A document view id names a state by the ids of the operations that
nothing follows yet: sorted, without repeats, at least one; in text they are hex, joined by `_`.

p2panda nodes look at the first byte of an operation id (0: BLAKE3) and at its length, not at the size byte
between them. An id with another size byte names no operation that can exist, but operations may mention
it, so it is let in here as well.
"""

from collections.abc import Iterable
from itertools import pairwise

from culm_models.bamboo import hashes as yasmf
from culm_models.p2panda.errors import P2pandaError

DocumentId = bytes
OperationId = bytes
DocumentViewId = tuple[OperationId, ...]

OPERATION_ID_PREFIX = b"\x00"
_HEX_SIZE = 2 * yasmf.HASH_SIZE


class DocumentViewIdError(P2pandaError, code="p2panda.document_view_id"):
    """Not a sorted, repeat-free, non-empty list of operation ids."""


def view_id(operation_ids: Iterable[OperationId]) -> DocumentViewId:
    """The view id of these operations, in whatever order they come. Raises `DocumentViewIdError`."""
    view = tuple(sorted(set(operation_ids)))
    check_view_id(view)
    return view


def check_operation_id(operation_id: bytes) -> None:
    """Raise `DocumentViewIdError` unless p2panda nodes would take `operation_id` for one."""
    if len(operation_id) != yasmf.HASH_SIZE or not operation_id.startswith(OPERATION_ID_PREFIX):
        raise DocumentViewIdError(f"an operation id has {yasmf.HASH_SIZE} bytes, the first of them 0")


def check_view_id(view: tuple[bytes, ...]) -> None:
    """Raise `DocumentViewIdError` unless `view` is a document view id."""
    if not view:
        raise DocumentViewIdError("a document view id names at least one operation")
    for operation_id in view:
        check_operation_id(operation_id)
    if any(a >= b for a, b in pairwise(view)):
        raise DocumentViewIdError("the operation ids are not sorted and unique")


def parse_view_id(text: str) -> DocumentViewId:
    """The view id that `text` spells, hex digits of either case. Raises `DocumentViewIdError`.

    The order is judged on the text, as the p2panda node does.
    """
    parts = text.split("_")
    if any(a >= b for a, b in pairwise(parts)):
        raise DocumentViewIdError("the operation ids are not sorted and unique")
    return tuple(_parse_operation_id(part) for part in parts)


def _parse_operation_id(text: str) -> OperationId:
    # `fromhex` alone would also skip white space.
    try:
        operation_id = bytes.fromhex(text) if len(text) == _HEX_SIZE else b""
    except ValueError as error:
        raise DocumentViewIdError(f"an operation id is {_HEX_SIZE} hex digits") from error
    check_operation_id(operation_id)
    return operation_id
