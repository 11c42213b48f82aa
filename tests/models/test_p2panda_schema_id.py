"""Schema ids and view ids: one spelling and one order, and what is no id."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.bamboo import hashes as yasmf
from culm_models.p2panda.operations import identifiers
from culm_models.p2panda.operations.identifiers import SchemaId, SchemaIdError

names = st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,62}[A-Za-z0-9]", fullmatch=True)
operation_ids = st.binary(min_size=32, max_size=32).map(lambda digest: "0020" + digest.hex())
application_ids = st.builds(
    lambda name, ids: "_".join((name, *sorted(ids))), names, st.sets(operation_ids, min_size=1, max_size=4)
)
system_ids = st.builds(
    lambda name, version: f"{name}_v{version}", st.sampled_from(identifiers.SYSTEM_NAMES), st.integers(0, 255)
)
schema_ids = application_ids | system_ids

A, B = ("0020" + digit * 64 for digit in "ab")


@given(names, st.sets(operation_ids, min_size=1, max_size=9))
def test_an_application_schema_id_survives_the_round_trip(name: str, ids: set[str]) -> None:
    text = "_".join((name, *sorted(ids)))
    parsed = SchemaId.parse(text)
    assert parsed == SchemaId(name, None, tuple(sorted(ids)))
    assert str(parsed) == text == identifiers.canonical_text(text)
    assert not parsed.is_system


@given(st.sampled_from(identifiers.SYSTEM_NAMES), st.integers(0, 255))
def test_a_system_schema_id_survives_the_round_trip(name: str, version: int) -> None:
    parsed = SchemaId.parse(f"{name}_v{version}")
    assert parsed == SchemaId(name, version, ())
    assert str(parsed) == f"{name}_v{version}"
    assert parsed.is_system


def test_versions_are_compared_as_numbers() -> None:
    assert identifiers.canonical_text("schema_definition_v01") == "schema_definition_v1"
    assert identifiers.canonical_text("blob_v+2") == "blob_v2"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "venue",
        "venue_",
        f"_{A}",
        f"v_{A}",
        f"venue__{A}",
        f"1venue_{A}",
        f"vénue_{A}",
        f"{'a' * 65}_{A}",
        f"venue_{B}_{A}",
        f"venue_{A}_{A}",
        f"venue_{A[:-1]}",
        f"venue_{A}0",
        f"venue_{A}_",
        f"venue_{A}\n",
        f"venue_01{A[2:]}",
        A,
        f"{A}_{B}",
        "venue_v1",
        "foo_v1",
        "blob_v256",
        "blob_v",
        "blob_v-1",
        "blob_v1 ",
        "blob_v\u0661",
        "Blob_v1",
        "blob_v1_v1",
    ],
)
def test_what_is_no_schema_id(text: str) -> None:
    with pytest.raises(SchemaIdError):
        SchemaId.parse(text)
    with pytest.raises(SchemaIdError):
        identifiers.canonical_text(text)


@given(st.lists(schema_ids, max_size=8), st.randoms(use_true_random=False))
def test_a_set_has_one_order_whatever_order_it_came_in(texts: list[str], random: Random) -> None:
    normal = identifiers.normalise(texts)
    shuffled = [*texts, *texts]
    random.shuffle(shuffled)
    assert identifiers.normalise(shuffled) == normal
    assert set(normal) == set(texts)


def test_system_schemas_come_first_and_application_schemas_by_name_not_by_text() -> None:
    expected = (
        "schema_definition_v1",
        "schema_definition_v10",
        "schema_field_definition_v1",
        "blob_v1",
        "blob_piece_v1",
        f"Zoo_{B}",
        f"aa_{A}",
        f"aa_{A}_{B}",
        f"aa_{B}",
        f"aaB_{A}",
    )
    assert identifiers.normalise(reversed(expected)) == expected


@given(st.text(max_size=200))
def test_no_text_raises_anything_but_a_schema_id_error(text: str) -> None:
    try:
        SchemaId.parse(text)
    except SchemaIdError as error:
        assert len(str(error)) < 500


def test_long_texts_are_not_remembered() -> None:
    text = "_".join(("venue", *sorted("0020" + f"{number:064x}" for number in range(2000))))
    assert str(SchemaId.parse(text)) == text
    with pytest.raises(SchemaIdError) as caught:
        SchemaId.parse(text + "_")
    assert len(str(caught.value)) < 500


view_ids = st.binary(max_size=8).map(yasmf.hash_bytes)
ONE, TWO = sorted((yasmf.hash_bytes(b"one"), yasmf.hash_bytes(b"two")))


@given(st.lists(view_ids, min_size=1, max_size=6))
def test_a_view_id_is_sorted_and_survives_its_text(ids: list[bytes]) -> None:
    view = identifiers.view_id(ids)
    assert view == tuple(sorted(set(ids)))
    assert identifiers.parse_view_id("_".join(map(bytes.hex, view))) == view
    identifiers.check_view_id(view)


@pytest.mark.parametrize(
    "view", [(), (TWO, ONE), (ONE, ONE), (b"",), (ONE[:-1],), (b"\x01" + ONE[1:],), (ONE, TWO + b"\x00")]
)
def test_what_is_no_view_id(view: tuple[bytes, ...]) -> None:
    with pytest.raises(identifiers.DocumentViewIdError):
        identifiers.check_view_id(view)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "_",
        ONE.hex() + "_",
        ONE.hex()[:-1],
        ONE.hex()[:-2] + "zz",
        ONE.hex()[:-2] + "  ",
        f"{TWO.hex()}_{ONE.hex()}",
        f"{ONE.hex()}_{ONE.hex()}",
        "01" + ONE.hex()[2:],
    ],
)
def test_what_is_no_text_of_a_view_id(text: str) -> None:
    with pytest.raises(identifiers.DocumentViewIdError):
        identifiers.parse_view_id(text)


def test_a_view_id_names_at_least_one_operation() -> None:
    with pytest.raises(identifiers.DocumentViewIdError):
        identifiers.view_id([])
