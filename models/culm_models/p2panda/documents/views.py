"""Views of documents whose operations are read by their ids.

Schema ids and pinned relations name views, often of documents that nothing else is wanted of. Such a view is
computed from its heads and what they follow, if all of it is held.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from culm_models.p2panda.documents.document import AuthoredOperation, Document, DocumentView
from culm_models.p2panda.operations.identifiers import DocumentViewId, OperationId

ReadOperation = Callable[[OperationId], AuthoredOperation | None]
"""Reads an operation by its id; returns None if it is not held."""

MAX_OPERATIONS: Final = 10_000
"""Largest number of operations that are read for one view."""


def read_view(view_id: DocumentViewId, read: ReadOperation) -> DocumentView | None:
    """Return the view at these heads.

    Returns None if not all of its operations are held, if they are not one document of one schema, or if they
    are more than `MAX_OPERATIONS`.
    """
    held: dict[OperationId, AuthoredOperation] = {}
    due = list(view_id)
    while due:
        operation_id = due.pop()
        if operation_id in held:
            continue
        added = read(operation_id)
        if added is None or len(held) == MAX_OPERATIONS:
            return None
        held[operation_id] = added
        due += added.operation.previous or ()
    creates = [added for added in held.values() if added.operation.previous is None]
    if len(creates) != 1:
        return None
    document = Document(
        creates[0].id, lambda ids: {operation_id: held[operation_id].operation for operation_id in ids}
    )
    if document.add(held.values()):
        return None
    return document.view_at(view_id)
