"""Random histories of documents: operations of several authors that follow each other, fork and merge."""

from __future__ import annotations

import random
from collections.abc import Iterable

from culm_models.p2panda.documents.document import AuthoredOperation, Document, ReadOperations
from culm_models.p2panda.operations.identifiers import OperationId
from culm_models.p2panda.operations.operation import Operation, Value

SCHEMA = "venue_0020c65567ae37efea293e34a9c7d13f8f2bf23dbdc3b5c7b9ab46293111c48fc78b"
NAMES = ("address", "name", "opened", "seats")


def history(
    seed: int, size: int, *, authors: int = 6, late: float = 0.3, deletes: float = 0.0
) -> list[AuthoredOperation]:
    """Return a document's operations in an order in which they may have been made.

    `late` is the share of operations whose author knows only a part of what is there; `deletes` that of
    operations which delete the document.
    """
    draw = random.Random(seed)
    keys = [bytes([author]) * 32 for author in range(authors)]
    operations: list[AuthoredOperation] = []
    heads: set[OperationId] = set()
    for number in range(size):
        operation_id = b"\x00\x20" + draw.randbytes(32)
        previous = _previous(draw, operations, heads, late)
        deleted = bool(number) and draw.random() < deletes
        fields: dict[str, Value] = {name: number for name in NAMES if not number or draw.random() < 0.4}
        operation = Operation(
            version=1,
            action="delete" if deleted else "update" if number else "create",
            schema_id=SCHEMA,
            previous=previous or None,
            fields=None if deleted else fields,
        )
        operations.append(AuthoredOperation(operation_id, draw.choice(keys), operation))
        heads.difference_update(previous)
        heads.add(operation_id)
    return operations


def _previous(
    draw: random.Random, operations: list[AuthoredOperation], heads: set[OperationId], late: float
) -> tuple[OperationId, ...]:
    """Return what the next operation names: all heads, or a view that somebody has who is behind."""
    if draw.random() >= late or len(operations) < 2:
        return tuple(sorted(heads))
    recent = operations[-12:]
    return tuple(sorted({draw.choice(recent).id for _ in range(draw.randint(1, 3))}))


def reader(operations: Iterable[AuthoredOperation]) -> ReadOperations:
    """Return the function with which a document reads earlier operations."""
    by_id = {added.id: added.operation for added in operations}
    return lambda ids: {operation_id: by_id[operation_id] for operation_id in ids}


def reduced(batches: Iterable[list[AuthoredOperation]], of: list[AuthoredOperation]) -> Document:
    """Return the document of the first operation of a history, fed with these batches."""
    document = Document(of[0].id, reader(of))
    for batch in batches:
        document.add(batch)
    return document


def state(document: Document) -> tuple[object, ...]:
    """Return everything that a document shows: view, order, and what waits for what."""
    graph = document.graph
    return (
        document.view(),
        [node.id for node in graph.order],
        {node.id for node in graph.waiting()},
        graph.missing(),
    )
