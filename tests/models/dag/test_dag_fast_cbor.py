"""The fast decoder of DAG-CBOR may only say yes (R6): its yes is the scanner's, with the scanner's value."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.dag.blocks.cid import CAR, DAG_CBOR, RAW, Cid, cid_of, make_cid
from culm_models.dag.blocks.common_nodes import is_common_node
from culm_models.dag.blocks.dag_cbor import (
    NESTING_MAX,
    dag_cbor_cid,
    decode_dag_cbor,
    encode_dag_cbor,
    scan_dag_cbor,
)
from culm_models.dag.blocks.fast_dag_cbor import UNSURE, fast_part, fast_value, is_surely_canonical
from culm_models.dag.errors import DagError
from culm_models.dag.replica.codec import encode_append, encode_node, proof_value
from tests.models.dag.drawn_values import CIDS, VALUES
from tests.models.dag.signers import DIDS, KEYS, ucan

LINK = cid_of(RAW, b"")
HEAD = bytes.fromhex("d82a5825000155")


def scanned(data: bytes) -> Any:
    try:
        return scan_dag_cbor(data)
    except DagError as error:
        return error.code


def agrees(data: bytes) -> None:
    """Whether all ways to read bytes come to one answer."""
    wanted = scanned(data)
    fast = fast_value(data, NESTING_MAX)
    if fast is not UNSURE:
        assert repr(fast) == repr(wanted)
    if isinstance(wanted, str) and wanted.startswith("dag."):
        assert fast is UNSURE
        assert not is_surely_canonical(data, NESTING_MAX)
        for read in (decode_dag_cbor, dag_cbor_cid):
            with pytest.raises(DagError) as caught:
                read(data)
            assert caught.value.code == wanted
    else:
        assert repr(decode_dag_cbor(data)) == repr(wanted)
        assert dag_cbor_cid(data) == cid_of(DAG_CBOR, data).raw


@given(VALUES)
def test_a_part_of_canonical_bytes_is_as_it_is_written_by_itself(value: Any) -> None:
    data = encode_dag_cbor({"of": {"a": LINK, "part": value}})
    part = fast_part(data, "of", "part")
    assert part is None or part == encode_dag_cbor(value)
    assert fast_part(data, "of", "other") is None
    assert fast_part(data + b"\0", "of", "part") is None


def test_the_part_of_a_publish_that_is_its_proof_is_found() -> None:
    leaf = ucan(0, 0, {"can": "dag/publish", "with": DIDS[0]})
    change = {"type": "publish", "id": KEYS[0], "link": LINK, "origin": cid_of(DAG_CBOR, b"")}
    node = encode_node({**change, "proof": proof_value(leaf)}, None)
    assert fast_part(node.data, "change", "proof") == leaf.block


@given(VALUES, st.data())
def test_values_and_what_is_made_of_them_are_read_alike(value: Any, draw: Any) -> None:
    data = encode_dag_cbor(value)
    agrees(data)
    other = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 3))):
        other[draw.draw(st.integers(0, len(other) - 1))] = draw.draw(st.integers(0, 255))
    agrees(bytes(other))
    agrees(data[: draw.draw(st.integers(0, len(data)))])
    agrees(data + b"\0")


@given(st.binary(max_size=80))
def test_any_bytes_are_read_alike(data: bytes) -> None:
    agrees(data)


@given(CIDS, st.binary(max_size=3))
def test_bytes_that_look_like_a_link_stay_bytes(cid: Cid, more: bytes) -> None:
    for raw in (cid.raw, cid.raw + more, b"\0" + cid.raw, cid.raw[:-1]):
        data = encode_dag_cbor({"a": raw, "b": cid})
        agrees(data)
        assert decode_dag_cbor(data) == {"a": raw, "b": cid}
        # And a link with bytes behind it is none, though libipld takes it.
        agrees(b"\xd8\x2a\x58" + bytes((len(raw) + 1, 0)) + raw if len(raw) > 22 else b"\xd8\x2a\x40")


@pytest.mark.parametrize("version", [b"\x81\x00", b"\x00", b"\x02", b"\x12"])
def test_links_of_other_versions_are_no_links(version: bytes) -> None:
    raw = version + b"\x71\x12\x20" + bytes(32)
    data = b"\xd8\x2a\x58" + bytes((len(raw) + 1, 0)) + raw
    assert scanned(data) == "dag.bad_cid"
    agrees(data)
    agrees(encode_dag_cbor(raw))


def test_common_nodes_are_settled_without_the_scanner() -> None:
    for count in (0, 1, 5, 300):
        shards = [
            make_cid(1, codec, 0x12, hashlib.sha256(bytes((n % 256, n // 256))).digest())
            for n, codec in enumerate([0x0202] * count)
        ]
        node = encode_append(shards, cid_of(DAG_CBOR, b"prior"))
        assert is_surely_canonical(node.data, NESTING_MAX)
        assert fast_value(node.data, NESTING_MAX) is not UNSURE


def nested(levels: int, inner: bytes = b"\x80") -> bytes:
    return b"\x81" * (levels - 1) + inner


def test_the_last_level_and_the_first_too_many() -> None:
    agrees(nested(NESTING_MAX))
    assert is_surely_canonical(nested(NESTING_MAX), NESTING_MAX)
    for levels in (NESTING_MAX + 1, NESTING_MAX + 2, 900, 5_000, 200_000):
        assert not is_surely_canonical(nested(levels), NESTING_MAX)
        assert fast_value(nested(levels), NESTING_MAX) is UNSURE
        assert scanned(nested(levels)) == "dag.non_canonical"


def test_levels_do_not_hide_behind_bytes_that_look_like_links() -> None:
    """Levels whose heads stand where the digest of a link would."""
    data = b"\x80"
    for _ in range(5):
        data = b"\x81" * 30 + b"\x82" + b"\x49" + HEAD + b"\x12\x20" + data
    assert scanned(data) == "dag.non_canonical"
    agrees(data)
    shallow = b"\x82\x49" + HEAD + b"\x12\x20" + nested(40)
    agrees(shallow)
    assert scanned(shallow)[1][0]


def test_a_canonical_block_of_many_heads_in_its_digests_is_taken() -> None:
    links = [make_cid(1, DAG_CBOR, 0x12, bytes((0x81,)) * 31 + bytes((n,))) for n in range(20)]
    data = encode_dag_cbor({"links": links})
    assert is_surely_canonical(data, NESTING_MAX)
    assert decode_dag_cbor(data) == {"links": links}


def common_nodes() -> list[bytes]:
    named = {"link": LINK, "origin": cid_of(DAG_CBOR, b"origin")}
    shard, prior = cid_of(CAR, b"shard"), cid_of(DAG_CBOR, b"prior")
    nodes = [encode_append([cid_of(CAR, bytes([n])) for n in range(count)]).data for count in (0, 1, 23)]
    nodes.append(encode_append([shard], prior).data)
    for more in ({}, {"prior": prior}, {"shard": shard}, {"prior": prior, "shard": shard}):
        nb = {**named, **more}
        either: list[dict[str, Any]] = [{"exp": None, "prf": []}, {"exp": 1 << 31, "prf": [prior]}]
        for fields in either:
            leaf = ucan(0, 0, {"can": "dag/publish", "with": DIDS[0], "nb": nb}, **fields)
            change = {"type": "publish", "id": KEYS[0], "proof": proof_value(leaf), **nb}
            change.pop("prior", None)
            nodes.append(encode_node(change, more.get("prior")).data)
    return nodes


@pytest.mark.parametrize("data", common_nodes())
def test_nodes_that_are_known_at_sight_are_canonical_and_others_are_not_known(data: bytes) -> None:
    assert is_common_node(data)
    agrees(data)
    others = [data + b"\0", data[:-1], b"\xa1" + data, data.replace(b"\x66change", b"\x66chance")]
    others += [
        data[:at] + bytes((data[at] ^ bit,)) + data[at + 1 :]
        for at in range(len(data))
        for bit in (1, 32, 128)
    ]
    for other in others:
        if is_common_node(other):
            scan_dag_cbor(other)


def test_nodes_with_more_are_not_known_at_sight() -> None:
    assert not is_common_node(encode_append([cid_of(CAR, bytes([n])) for n in range(24)]).data)
    assert not is_common_node(encode_append([LINK]).data)
    encoded = encode_append([cid_of(CAR, b"")]).data
    for head in (0x80, 0x82, 0x97):
        other = encoded.replace(b"shards\x81", b"shards" + bytes((head,)))
        assert not is_common_node(other)
        agrees(other)
    short = next(data for data in common_nodes() if b"exp\x1a" in data)
    at = short.index(b"exp\x1a") + 4
    agrees(short[:at] + bytes(4) + short[at + 4 :])
