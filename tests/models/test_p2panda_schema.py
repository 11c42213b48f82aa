"""Fields fit their schema exactly where p2panda nodes say so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from culm_models.p2panda.errors import SchemaMismatchError
from culm_models.p2panda.operations.operation import Operation, Value, decode_operation
from culm_models.p2panda.operations.schema import (
    FIELD_TYPES,
    MAX_BLOB_PIECE_BYTES,
    Fields,
    check_fields,
    definition_of,
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


VENUE = f"venue_{hash_of(9).hex()}"


def defined(name: str = "venue", field_type: str = "int") -> dict[bytes, Operation]:
    """A schema whose one field was renamed once."""
    field: dict[str, Value] = {"name": "places", "type": field_type}
    return {
        hash_of(1): Operation(1, "create", "schema_field_definition_v1", None, field),
        hash_of(2): Operation(1, "update", "schema_field_definition_v1", (hash_of(1),), {"name": "seats"}),
        hash_of(9): Operation(
            1,
            "create",
            "schema_definition_v1",
            None,
            {"name": name, "description": "", "fields": ((hash_of(2),),)},
        ),
    }


def test_a_definition_is_read_from_the_documents_at_the_views_that_it_names() -> None:
    assert definition_of(VENUE, defined().get) == {"seats": "int"}


@pytest.mark.parametrize("lacking", [1, 2, 9])
def test_a_definition_that_is_not_held_whole_is_not_known(lacking: int) -> None:
    operations = defined()
    del operations[hash_of(lacking)]
    assert definition_of(VENUE, operations.get) is None


def test_a_definition_with_branches_or_with_a_type_of_another_kind_is_not_known() -> None:
    operations = defined()
    operations[hash_of(2)] = Operation(
        1, "update", "schema_field_definition_v1", (hash_of(1), hash_of(3)), {"name": "seats"}
    )
    assert definition_of(VENUE, operations.get) is None
    assert definition_of(VENUE, defined(field_type="colour").get) is None


def test_a_definition_of_another_name_is_refused() -> None:
    with pytest.raises(SchemaMismatchError):
        definition_of(VENUE, defined(name="house").get)
