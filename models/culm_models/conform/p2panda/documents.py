"""Operations on p2panda documents: what a set of operations amounts to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from culm_models.conform.arguments import ArgumentError, Arguments, as_octets
from culm_models.conform.operation import ConformOperation, Machines
from culm_models.conform.p2panda.messages import field_to_json
from culm_models.errors import CulmError
from culm_models.p2panda.documents.document import AuthoredOperation, Document
from culm_models.p2panda.operations.identifiers import OperationId
from culm_models.p2panda.operations.operation import Operation, decode_operation

_NO_CREATE: Final = b""
"""Stands for the id of a create that is not here."""


def _reduce(_machines: Machines, arguments: Arguments) -> dict[str, Any]:
    operations: dict[OperationId, AuthoredOperation] = {}
    refused: dict[OperationId, CulmError] = {}
    for item in arguments.items("operations"):
        if not isinstance(item, list) or len(item) != 3:
            raise ArgumentError("an operation is [operation id, public key, operation]")
        operation_id, author, data = (as_octets(part, "operations") for part in item)
        try:
            operations[operation_id] = AuthoredOperation(operation_id, author, decode_operation(data))
        except CulmError as error:
            refused[operation_id] = error
    document = _document(operations, refused)
    view = document.view()
    graph = document.graph
    fields = {} if view is None else view.fields
    return {
        "document_id": None if view is None else view.document_id.hex(),
        "schema_id": None if view is None else view.schema_id,
        "owner": None if view is None else view.owner.hex(),
        "view_id": [] if view is None else _hex(view.view_id),
        "deleted": view is not None and fields is None,
        "fields": None
        if fields is None
        else {
            name: {"operation_id": field.operation_id.hex(), **field_to_json(field.value)}
            for name, field in sorted(fields.items())
        },
        "order": _hex(node.id for node in graph.order),
        "missing": _hex(sorted(graph.missing() - refused.keys())),
        "waiting": _hex(sorted(node.id for node in graph.waiting())),
        "refused": [[operation_id.hex(), error.code] for operation_id, error in sorted(refused.items())],
    }


def _document(
    operations: Mapping[OperationId, AuthoredOperation], refused: dict[OperationId, CulmError]
) -> Document:
    """Reduce the operations to the document that most of them belong to; the lowest id decides a tie."""

    def read(ids: Iterable[OperationId]) -> Mapping[OperationId, Operation]:
        return {operation_id: operations[operation_id].operation for operation_id in ids}

    creates = sorted(added.id for added in operations.values() if added.operation.previous is None)
    candidates = [Document(operation_id, read) for operation_id in creates or [_NO_CREATE]]
    answers = [document.add(operations.values()) for document in candidates]
    best = max(range(len(candidates)), key=lambda index: len(candidates[index].graph.order))
    refused.update(answers[best])
    return candidates[best]


def _hex(ids: Iterable[OperationId]) -> list[str]:
    return [operation_id.hex() for operation_id in ids]


OPERATIONS = [
    ConformOperation(
        "p2panda.document.reduce",
        "operations: [[operation id, public key, operation], …] of one document, in any order",
        "document_id, schema_id, owner, view_id, deleted, fields as {name: {operation_id, type, value}}, "
        "order, missing, waiting, refused: [[operation id, code], …]",
        _reduce,
    ),
]
