"""Fields fit their schema exactly where p2panda nodes say so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from culm_models.p2panda.errors import SchemaMismatchError
from culm_models.p2panda.operations.operation import Operation, decode_operation
from culm_models.p2panda.operations.schema import (
    FIELD_TYPES,
    MAX_BLOB_PIECE_BYTES,
    Fields,
    check_fields,
)

VECTORS = Path(__file__).parents[1] / "vectors" / "p2panda" / "schemas.json"


def hash_of(number: int) -> bytes:
    return b"\x00\x20" + bytes([number]) * 32


def fields_of(types: dict[str, str] | None) -> Fields | None:
    if types is None:
        return None
    return {
        name: next(field_type for field_type in FIELD_TYPES if field_type == spelled)
        for name, spelled in types.items()
    }


def fits(operation: Operation, known: Fields | None) -> bool:
    try:
        check_fields(operation.action, operation.schema_id, operation.fields, known)
    except SchemaMismatchError:
        return False
    return True


def test_every_recorded_verdict_of_a_node_is_the_same() -> None:
    recorded: list[dict[str, Any]] = json.loads(VECTORS.read_text())
    assert {row["accepted"] for row in recorded} == {True, False}
    for row in recorded:
        operation = decode_operation(bytes.fromhex(row["operation"]))
        assert fits(operation, fields_of(row["fields"])) is row["accepted"], operation


def test_a_piece_of_a_blob_has_a_limit() -> None:
    for size, is_taken in ((MAX_BLOB_PIECE_BYTES, True), (MAX_BLOB_PIECE_BYTES + 1, False)):
        piece = Operation(1, "create", "blob_piece_v1", None, {"data": bytes(size)})
        assert fits(piece, None) is is_taken
