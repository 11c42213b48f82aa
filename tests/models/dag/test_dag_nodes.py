"""Replica nodes (reference 3.1): one code for each rule, in the order of the table."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.dag.blocks.cid import CAR, DAG_CBOR, RAW, Cid, cid_of, make_cid
from culm_models.dag.blocks.common_nodes import common_append
from culm_models.dag.blocks.dag_cbor import decode_dag_cbor, encode_dag_cbor
from culm_models.dag.errors import DagError
from culm_models.dag.replica.codec import decode_node, encode_append, encode_join
from culm_models.dag.replica.node import JoinChange
from tests.models.dag.drawn_values import LINKS, VALUES
from tests.models.dag.signers import publish

A, B, C = sorted(cid_of(DAG_CBOR, bytes([n])) for n in range(3))
V0 = make_cid(0, 0x70, 0x12, bytes(32))
RAW_CID = cid_of(RAW, b"")
SHORT = make_cid(1, DAG_CBOR, 0x12, bytes(31))
APPEND: dict[str, Any] = {"type": "append", "shards": []}
JOIN: dict[str, Any] = {"type": "join", "forks": [B]}
PUBLISH: dict[str, Any] = decode_dag_cbor(publish().data)["change"]


def code(value: Any) -> str:
    with pytest.raises(DagError) as caught:
        decode_node(encode_dag_cbor(value))
    return caught.value.code.removeprefix("dag.")


def without(change: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: item for key, item in change.items() if key != name}


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ([], "schema"),
        ({}, "schema"),
        ({"prior": A}, "schema"),
        ({"change": APPEND, "more": 1}, "schema"),
        ({"change": APPEND, "prior": None}, "schema"),
        ({"change": APPEND, "prior": A.text}, "schema"),
        ({"change": APPEND, "prior": A.raw}, "schema"),
        ({"change": []}, "schema"),
        ({"change": {"type": "x"}, "prior": V0}, "cid_version"),
        ({"change": {"type": "x"}, "prior": RAW_CID}, "prior_codec"),
        ({"change": {"type": "x"}, "prior": SHORT}, "prior_codec"),
        ({"change": {}}, "schema"),
        ({"change": {"type": 1}}, "schema"),
        ({"change": {"type": "Append", "shards": []}}, "unknown_change"),
        ({"change": {"type": "append"}}, "schema"),
        ({"change": {**APPEND, "forks": []}}, "schema"),
        ({"change": {"type": "append", "shards": {}}}, "schema"),
        ({"change": {"type": "append", "shards": [A.text]}}, "schema"),
        ({"change": {"type": "append", "shards": [A.raw]}}, "schema"),
        ({"change": {"type": "append", "shards": [A] * 4097}}, "too_many"),
        ({"change": {"type": "append", "shards": [B, V0, A]}}, "cid_version"),
        ({"change": {"type": "append", "shards": [B, B, A]}}, "duplicate"),
        ({"change": {"type": "append", "shards": [B, A, A]}}, "unsorted"),
        ({"change": JOIN}, "join_prior_missing"),
        ({"change": {"type": "join", "forks": []}}, "join_prior_missing"),
        ({"change": {"type": "join", "forks": []}, "prior": A}, "join_empty"),
        ({"change": {"type": "join", "forks": [A] * 257}}, "too_many"),
        ({"change": {"type": "join", "forks": [RAW_CID, V0]}, "prior": A}, "cid_version"),
        ({"change": {"type": "join", "forks": [RAW_CID, B, B]}, "prior": A}, "fork_codec"),
        ({"change": {"type": "join", "forks": [SHORT]}, "prior": A}, "fork_codec"),
        ({"change": {"type": "join", "forks": [C, B]}, "prior": C}, "unsorted"),
        ({"change": {"type": "join", "forks": [B, B]}, "prior": C}, "duplicate"),
        ({"change": {"type": "join", "forks": [B, C]}, "prior": B}, "join_prior_order"),
        ({"change": {"type": "join", "forks": [B]}, "prior": C}, "join_prior_order"),
        *(({"change": without(PUBLISH, name)}, "schema") for name in ("id", "link", "origin", "proof")),
        ({"change": {**PUBLISH, "more": 1}}, "schema"),
        ({"change": {**PUBLISH, "id": bytes(31)}}, "schema"),
        ({"change": {**PUBLISH, "id": A}}, "schema"),
        ({"change": {**PUBLISH, "link": "x"}}, "schema"),
        ({"change": {**PUBLISH, "shard": None}}, "schema"),
        ({"change": {**PUBLISH, "proof": []}}, "schema"),
        ({"change": {**PUBLISH, "proof": 1}}, "schema"),
        ({"change": {**PUBLISH, "origin": V0, "proof": b""}}, "cid_version"),
        ({"change": {**PUBLISH, "shard": V0, "origin": RAW_CID}}, "cid_version"),
        ({"change": {**PUBLISH, "origin": RAW_CID, "proof": b""}}, "origin_codec"),
        ({"change": {**PUBLISH, "proof": b""}}, "proof_form"),
        ({"change": {**PUBLISH, "proof": A}}, "proof_form"),
        ({"change": {**PUBLISH, "proof": "x"}}, "jwt"),
        ({"change": {**PUBLISH, "proof": {}}}, "schema"),
    ],
)
def test_what_is_refused(node: Any, expected: str) -> None:
    assert code(node) == expected


def test_a_node_over_its_bound() -> None:
    data = encode_dag_cbor({"change": {"type": "append", "shards": []}}) + bytes(262_144)
    with pytest.raises(DagError) as caught:
        decode_node(data)
    assert caught.value.code == "dag.too_large"


@given(st.lists(LINKS, max_size=5), st.none() | st.just(A))
def test_an_append_has_one_cid(shards: list[Cid], prior: Cid | None) -> None:
    node = encode_append(shards, prior)
    assert node == encode_append(list(reversed(shards)) + shards, prior)
    assert decode_node(node.data) == node
    assert node.shards == tuple(sorted(set(shards)))


@given(st.sets(st.integers(0, 50), min_size=2, max_size=8), st.randoms())
def test_a_join_has_one_cid(numbers: set[int], random: Any) -> None:
    heads = [cid_of(DAG_CBOR, bytes([n])) for n in numbers]
    node = encode_join(heads)
    random.shuffle(heads)
    assert encode_join(heads) == node
    assert node.prior == min(heads)
    assert isinstance(node.change, JoinChange)
    assert list(node.change.forks) == sorted(heads)[1:]


@given(VALUES, st.sampled_from(["shards", "forks", "id", "link", "origin", "proof", "type", "prior", "x"]))
def test_values_of_any_kind_are_refused_with_a_code(value: Any, name: str) -> None:
    for change in (APPEND, JOIN, PUBLISH):
        for node in ({"change": {**change, name: value}}, {"change": change, "prior": value}, value):
            try:
                decode_node(encode_dag_cbor(node))
            except DagError as error:
                assert error.code.count(".") == 1


@given(st.data())
def test_altered_bytes_are_refused_with_a_code(draw: Any) -> None:
    data = bytearray(draw.draw(st.sampled_from([publish().data, encode_join([A, B, C]).data])))
    data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    try:
        node = decode_node(bytes(data))
    except DagError:
        return
    assert node.cid == cid_of(DAG_CBOR, bytes(data))


@given(
    st.lists(st.builds(cid_of, st.sampled_from((CAR, CAR, RAW)), st.binary(max_size=1)), max_size=4),
    st.none() | st.builds(cid_of, st.sampled_from((DAG_CBOR, DAG_CBOR, RAW)), st.binary(max_size=1)),
    st.none() | st.tuples(st.integers(0, 400), st.integers(0, 255)),
    st.booleans(),
)
def test_an_append_that_is_known_at_sight_says_what_its_reader_says(
    shards: list[Cid], prior: Cid | None, changed: tuple[int, int] | None, ascending: bool
) -> None:
    named = sorted(set(shards)) if ascending else shards
    value: dict[str, Any] = {"change": {"type": "append", "shards": named}}
    data = bytearray(encode_dag_cbor(value if prior is None else {"prior": prior, **value}))
    if changed is not None:
        data[changed[0] % len(data)] = changed[1]
    append = common_append(bytes(data))
    if append is not None:
        node = decode_node(bytes(data))
        assert append == (node.prior and node.prior.raw, [shard.raw for shard in node.shards])


def test_appends_as_nearly_all_are_are_known_at_sight() -> None:
    cars = sorted(cid_of(CAR, bytes([n])) for n in range(3))
    for prior in (None, A):
        for count in range(4):
            append = common_append(encode_append(cars[:count], prior).data)
            assert append == (prior and prior.raw, [car.raw for car in cars[:count]])
    assert common_append(encode_join([A, B]).data) is None
    assert common_append(encode_append(cars, A).data + b"\0") is None
