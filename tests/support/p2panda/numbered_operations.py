"""Operations whose ids end with their number, for histories that are written down one by one."""

from __future__ import annotations

import random

from culm_models.p2panda.documents.document import AuthoredOperation
from culm_models.p2panda.operations.operation import Operation, Value
from tests.support.p2panda.document_histories import SCHEMA


def numbered(number: int, fields: dict[str, Value] | None = None) -> AuthoredOperation:
    """Return a create, or an update of the create 0, whose field has its number."""
    previous = (id_of_number(0),) if number else None
    values: dict[str, Value] = {"name": str(number)} if fields is None else fields
    operation = Operation(1, "update" if number else "create", SCHEMA, previous, values)
    return AuthoredOperation(id_of_number(number), bytes(32), operation)


def follower(number: int, previous: bytes) -> AuthoredOperation:
    return AuthoredOperation(
        id_of_number(100 + number), bytes(32), Operation(1, "update", SCHEMA, (previous,), {"name": number})
    )


def update_of(before: AuthoredOperation, fields: dict[str, Value]) -> AuthoredOperation:
    operation_id = bytes([0, 0x20]) + random.Random(before.id).randbytes(32)
    return AuthoredOperation(operation_id, bytes(32), Operation(1, "update", SCHEMA, (before.id,), fields))


def id_of_number(number: int) -> bytes:
    return b"\x00\x20" + bytes(31) + bytes([number])
