"""What a reference peer signs is what p2panda nodes take."""

from __future__ import annotations

from pathlib import Path

import pytest

from culm_connectors.p2panda.reference_peer.authoring import AuthoringError, Draft
from culm_connectors.p2panda.reference_peer.field_texts import parse_fields
from culm_models.p2panda.errors import SchemaMismatchError
from culm_models.p2panda.operations.operation import Value, decode_operation
from culm_models.p2panda.operations.schema import FIELD_TYPES
from tests.support.edge import reference_peer
from tests.support.logs import SCHEMA

ID = "0020" + "ab" * 32
OTHER = "0020" + "cd" * 32


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a=x=y", "x=y"),
        ("a:int=-3", -3),
        ("a:int=9223372036854775807", 2**63 - 1),
        ("a:bytes=", b""),
        ("a:relation_list=", ()),
        ("a:pinned_relation_list=", ()),
        (f"a:pinned_relation={OTHER},{ID}", (bytes.fromhex(ID), bytes.fromhex(OTHER))),
        (f"a:pinned_relation_list={OTHER};{ID}", ((bytes.fromhex(OTHER),), (bytes.fromhex(ID),))),
    ],
)
def test_a_field_is_read(text: str, value: Value) -> None:
    assert parse_fields([text]) == {"a": value}


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "=x",
        "a:int=9223372036854775808",
        "a:int=1_0",
        "a:int=",
        "a:bool=1",
        "a:colour=red",
        "a:=x",
        "a:bytes=0",
        "a:relation=",
        "a:relation=00",
        f"a:relation={ID}00",
        f"a:relation_list={ID},",
        "a:pinned_relation=",
        f"a:pinned_relation={ID},{ID}",
        f"a:pinned_relation_list={ID};",
        f"a:pinned_relation_list={ID};{ID},{ID}",
    ],
)
def test_a_text_that_is_no_field_is_refused(text: str) -> None:
    with pytest.raises(AuthoringError):
        parse_fields([text])


def test_a_field_that_is_given_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"x")
    with pytest.raises(AuthoringError, match="twice"):
        parse_fields(["a=1", "a=2"])
    with pytest.raises(AuthoringError, match="twice"):
        parse_fields(["a=1"], [f"a={tmp_path / 'data'}"])


def test_a_wrong_type_is_answered_with_all_types() -> None:
    with pytest.raises(AuthoringError) as refusal:
        parse_fields(["a:colour=red"])
    assert refusal.value.hint == f"one of {', '.join(FIELD_TYPES)}"


def test_a_field_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a=b"
    path.write_bytes(b"\x00\xff")
    assert parse_fields([], [f"data={path}"]) == {"data": b"\x00\xff"}
    with pytest.raises(AuthoringError, match="UTF-8"):
        parse_fields([], [f"text:str={path}"])
    path.write_text("12\n")
    assert parse_fields([], [f"text:str={path}", f"number:int={path}"]) == {"text": "12\n", "number": 12}


def test_a_file_that_no_operation_can_hold_is_refused_before_all_of_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(AuthoringError, match="no operation can hold"):
        parse_fields([], [f"data={path}"])
    with pytest.raises(AuthoringError, match="cannot be read"):
        parse_fields([], [f"data={tmp_path}"])


async def test_an_operation_that_nodes_refuse_is_not_signed(tmp_path: Path) -> None:
    async with reference_peer(tmp_path, "a") as peer:
        for draft in (
            Draft("create", SCHEMA, {}),
            Draft("create", SCHEMA, {"9": 1}),
            Draft("create", SCHEMA, {"a": ((),)}),
            Draft("create", "blob_v1", {"length": 1, "mime_type": "Text", "pieces": ()}),
            Draft("create", "blob_piece_v1", {"data": "x"}),
            Draft("create", "blob_v2", {"length": 1}),
        ):
            with pytest.raises(SchemaMismatchError):
                await peer.publish([draft])
        assert peer.heights() == {}


async def test_fields_are_checked_against_a_definition_that_is_held(tmp_path: Path) -> None:
    async with reference_peer(tmp_path, "a") as peer:
        field: dict[str, Value] = {"name": "seats", "type": "int"}
        (seats,) = await peer.publish([Draft("create", "schema_field_definition_v1", field)])
        fields: dict[str, Value] = {"name": "venue", "description": "", "fields": ((seats.hash,),)}
        (definition,) = await peer.publish([Draft("create", "schema_definition_v1", fields)])
        schema = f"venue_{definition.hash.hex()}"
        wrong_ones: list[dict[str, Value]] = [{"seats": "12"}, {"seats": 12, "name": "x"}, {"seat": 12}]
        for wrong in wrong_ones:
            with pytest.raises(SchemaMismatchError):
                await peer.publish([Draft("create", schema, wrong)])
        (venue,) = await peer.publish([Draft("create", schema, {"seats": 12})])
        assert decode_operation(venue.payload_bytes).fields == {"seats": 12}


async def test_a_schema_id_is_written_in_its_canonical_spelling(tmp_path: Path) -> None:
    async with reference_peer(tmp_path, "a") as peer:
        (piece,) = await peer.publish([Draft("create", "blob_piece_v+01", {"data": b"x"})])
        assert decode_operation(piece.payload_bytes).schema_id == "blob_piece_v1"
        assert b"blob_piece_v1" in piece.payload_bytes
