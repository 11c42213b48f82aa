"""Strict DAG-CBOR (reference 1.2): one encoding a value, and every other spelling is refused."""

from __future__ import annotations

import hashlib
import tracemalloc
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from culm_models.dag.blocks.cid import CAR, DAG_CBOR, RAW, Cid, cid_of, make_cid
from culm_models.dag.blocks.dag_cbor import decode_dag_cbor, encode_dag_cbor
from culm_models.dag.blocks.dag_json import decode_dag_json, encode_dag_json, strict_json
from culm_models.dag.car import write_car
from culm_models.dag.errors import CidMalformed, DagError, DagJsonMalformed, NonCanonical
from tests.models.dag.drawn_values import VALUES
from tests.models.dag.recorded import recorded

CID = "01711220" + hashlib.sha256(b"").hexdigest()


def code(data: bytes) -> str:
    with pytest.raises(DagError) as caught:
        decode_dag_cbor(data)
    return caught.value.code


@given(VALUES)
def test_a_value_has_one_encoding_and_comes_back(value: Any) -> None:
    data = encode_dag_cbor(value)
    decoded = decode_dag_cbor(data)
    assert encode_dag_cbor(decoded) == data
    assert decoded == value


@given(st.binary(max_size=60))
def test_what_is_let_in_is_canonical(data: bytes) -> None:
    try:
        value = decode_dag_cbor(data)
    except (NonCanonical, CidMalformed):
        return
    assert encode_dag_cbor(value) == data


@given(VALUES, st.data())
def test_an_altered_byte_is_refused_or_is_another_value(value: Any, draw: Any) -> None:
    data = bytearray(encode_dag_cbor(value))
    at = draw.draw(st.integers(0, len(data) - 1))
    data[at] = draw.draw(st.integers(0, 255))
    test_what_is_let_in_is_canonical.hypothesis.inner_test(bytes(data))  # type: ignore[attr-defined]


@given(VALUES)
def test_a_cut_at_every_byte_is_refused(value: Any) -> None:
    data = encode_dag_cbor(value)
    for end in range(len(data)):
        assert code(data[:end]) in ("dag.non_canonical", "dag.bad_cid")
    assert code(data + b"\0") == "dag.non_canonical"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("", "non_canonical"),
        ("1817", "non_canonical"),  # 23 in two bytes
        ("1900ff", "non_canonical"),
        ("1a0000ffff", "non_canonical"),
        ("1b00000000ffffffff", "non_canonical"),
        ("3817", "non_canonical"),
        ("5801aa", "non_canonical"),
        ("780161", "non_canonical"),
        ("9801f6", "non_canonical"),
        ("b8016161f6", "non_canonical"),
        ("1c", "non_canonical"),
        ("1f", "non_canonical"),
        ("5f41aaff", "non_canonical"),
        ("7f6161ff", "non_canonical"),
        ("9ff6ff", "non_canonical"),
        ("bfff", "non_canonical"),
        ("f7", "non_canonical"),
        ("e0", "non_canonical"),
        ("f0", "non_canonical"),
        ("f8f4", "non_canonical"),
        ("ff", "non_canonical"),
        ("f93c00", "non_canonical"),
        ("fa3f800000", "non_canonical"),
        ("fb7ff8000000000000", "non_canonical"),
        ("fb7ff0000000000000", "non_canonical"),
        ("fbfff0000000000000", "non_canonical"),
        ("62c328", "non_canonical"),  # no UTF-8
        ("63eda080", "non_canonical"),  # a surrogate
        ("62c080", "non_canonical"),  # an overlong zero
        ("a10102", "non_canonical"),  # a key that is no text
        ("a14161f6", "non_canonical"),
        ("a26161f66161f6", "non_canonical"),  # a key twice
        ("a26162f66161f6", "non_canonical"),  # not bytewise
        ("a2626161f66162f6", "non_canonical"),  # not by length
        ("a1c1616100", "non_canonical"),
        ("c11a00000000", "non_canonical"),  # another tag
        ("c200", "non_canonical"),
        ("d9002a" + "582500" + CID, "non_canonical"),  # 42 in three bytes
        ("d82a", "non_canonical"),
        ("d82a00", "bad_cid"),
        ("d82a60", "bad_cid"),
        ("d82af6", "bad_cid"),
        ("d82ad82a582500" + CID, "bad_cid"),
        ("d82a5f", "non_canonical"),
        ("d82a40", "bad_cid"),
        ("d82a4100", "bad_cid"),
        ("d82a5824" + CID, "bad_cid"),  # no zero before it
        ("d82a582501" + CID, "bad_cid"),
        ("d82a582600" + CID + "00", "bad_cid"),  # a byte behind it
        ("d82a582400" + CID[:-2], "bad_cid"),
        ("d82a582500" + "02" + CID[2:], "bad_cid"),
        ("d82a582600" + "01f10012" + CID[6:], "bad_cid"),  # a codec that is not the shortest form
        ("d82a582500" + CID[:-2], "non_canonical"),
        ("82d82a40f7", "bad_cid"),  # the first fault in byte order
        ("82f7d82a40", "non_canonical"),
    ],
)
def test_other_spellings_are_refused(data: str, expected: str) -> None:
    assert code(bytes.fromhex(data)) == f"dag.{expected}"


@pytest.mark.parametrize("value", [0, 23, 24, 255, 256, 65535, 65536, (1 << 32) - 1, 1 << 32, (1 << 64) - 1])
def test_integers_at_the_borders(value: int) -> None:
    for number in (value, -1 - value):
        assert decode_dag_cbor(encode_dag_cbor(number)) == number


def test_minus_zero_and_bytes_that_look_like_a_cid_stay() -> None:
    data = encode_dag_cbor([-0.0, bytes.fromhex(CID), b"\0" + bytes.fromhex(CID)])
    decoded = decode_dag_cbor(data)
    assert str(decoded[0]) == "-0.0"
    assert decoded[1] == bytes.fromhex(CID)
    assert not isinstance(decoded[2], Cid)
    assert encode_dag_cbor(decoded) == data


@pytest.mark.parametrize("shell", [b"\x81", b"\xa1\x61a"])
def test_level_129_is_refused(shell: bytes) -> None:
    inner = b"\x80" if shell == b"\x81" else b"\xa0"
    assert decode_dag_cbor(shell * 127 + inner) is not None
    assert code(shell * 128 + inner) == "dag.non_canonical"
    assert decode_dag_cbor(shell * 128 + b"\xf6") is not None
    link = bytes.fromhex("d82a582500" + CID)
    assert decode_dag_cbor(shell * 128 + link) is not None
    assert code(b"\x81" * 1_000_000) == "dag.non_canonical"
    value: Any = None
    for _ in range(129):
        value = [value]
    with pytest.raises(NonCanonical):
        encode_dag_cbor(value)
    encode_dag_cbor(value[0])


@pytest.mark.parametrize("head", ["5b", "7b", "9b", "bb"])
def test_claimed_lengths_take_no_memory(head: str) -> None:
    tracemalloc.start()
    for claim in ("000000ffffffffff", "7fffffffffffffff", "ffffffffffffffff"):
        assert code(bytes.fromhex(head + claim)) == "dag.non_canonical"
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), 1 << 64, -(1 << 64) - 1, "\ud800", {1: 2}, {"\udfff": 1}, object()]
)
def test_what_has_no_encoding_is_refused(value: Any) -> None:
    with pytest.raises(NonCanonical):
        encode_dag_cbor(value)


def test_the_nodes_of_the_specification() -> None:
    empty = recorded("nodes")["specification"][0]
    data = encode_dag_cbor({"change": {"type": "append", "shards": []}})
    assert data.hex() == empty["hex"]
    assert cid_of(DAG_CBOR, data).text == empty["cid"]
    shard = recorded("nodes")["specification"][1]
    data = write_car([make_cid(1, RAW, 0, b"")], [])
    assert (data.hex(), cid_of(CAR, data).text) == (shard["hex"], shard["cid"])


@given(VALUES)
def test_dag_cbor_of_others_reads_and_writes_alike(value: Any) -> None:
    dag_cbor = pytest.importorskip("dag_cbor", reason="the oracle dag-cbor is not installed")
    from multiformats import CID as TheirCid

    def theirs(ours: Any) -> Any:
        if isinstance(ours, Cid):
            return TheirCid.decode(ours.raw)
        if isinstance(ours, list):
            return [theirs(item) for item in ours]
        if isinstance(ours, dict):
            return {key: theirs(item) for key, item in ours.items()}
        return ours

    data = encode_dag_cbor(value)
    assert dag_cbor.encode(theirs(value)) == data
    assert dag_cbor.decode(data) == theirs(value)


@given(st.data())
def test_dag_cbor_of_others_refuses_what_we_refuse(draw: Any) -> None:
    dag_cbor = pytest.importorskip("dag_cbor", reason="the oracle dag-cbor is not installed")
    data = bytearray(encode_dag_cbor(draw.draw(VALUES)))
    data[draw.draw(st.integers(0, len(data) - 1))] ^= 1 << draw.draw(st.integers(0, 7))
    try:
        decode_dag_cbor(bytes(data))
    except DagError:
        with pytest.raises(Exception):  # noqa: B017
            dag_cbor.decode(bytes(data))


# DAG-JSON: links and bytes in one form; strict JSON below it (reference 4.3).


LINK = cid_of(RAW, b"").text


@given(VALUES)
def test_a_value_comes_back(value: Any) -> None:
    try:
        data = encode_dag_json(value)
    except DagJsonMalformed:
        assume(False)
    assert decode_dag_json(data) == value
    assert encode_dag_json(decode_dag_json(data)) == data


def test_keys_are_sorted_by_their_bytes() -> None:
    # UTF-16 would put the second before the first.
    assert (
        encode_dag_json({"\uffff": 1, "\U00010000": 2, "a": 3}).decode()
        == '{"a":3,"\uffff":1,"\U00010000":2}'
    )
    assert encode_dag_json('\x7f\u2028\x1f"\\/') == '"\x7f\u2028\\u001f\\"\\\\/"'.encode()


@pytest.mark.parametrize(
    "text",
    [
        '{"/":1}',
        '{"/":null}',
        '{"/":{}}',
        '{"/":"' + LINK + '","a":1}',
        '{"/":{"bytes":1}}',
        '{"/":{"bytes":"AQI","a":1}}',
        '{"/":{"bytes":"AQI="}}',
        '{"/":{"bytes":"AQJ"}}',  # unused bits
        '{"/":{"bytes":"A"}}',
        '{"/":{"bytes":"A I"}}',
        '{"/":{"bytes":"-_8"}}',
        '{"/":{"bytes":"é"}}',
        '{"a":1,"a":1}',
        "NaN",
        "[Infinity]",
        "-Infinity",
        "01",
        "",
        "1 2",
        '"\\ud800"',
        '{"\\udfff":1}',
        '["\\ud800\\u0020\\udc00"]',
        "18446744073709551616",
        "-18446744073709551617",
        "1" * 5000,
        "[" * 129 + "]" * 129,
        "[" * 100_000,
        '{"a":' * 100_000,
    ],
)
def test_other_forms_are_refused(text: str) -> None:
    with pytest.raises((DagJsonMalformed, NonCanonical)):
        decode_dag_json(text.encode())


def test_the_text_of_a_link_is_checked() -> None:
    with pytest.raises(CidMalformed):
        decode_dag_json(b'{"/":"' + LINK.upper().encode() + b'"}')
    assert decode_dag_json(b'{"/":"' + LINK.encode() + b'"}') == cid_of(RAW, b"")


@pytest.mark.parametrize("text", ["1.0", "1e3", "-0", "1E2", "-0.0"])
def test_floats_where_none_may_be(text: str) -> None:
    decode_dag_json(text.encode())
    with pytest.raises(DagJsonMalformed):
        strict_json(text.encode(), floats=False)


def test_bytes_that_are_no_utf8() -> None:
    for data in (b"\xff", b'"\xed\xa0\x80"', b"\xef\xbb\xbf1", "1".encode("utf-16")):
        with pytest.raises(DagError):
            decode_dag_json(data)


def test_links_and_bytes_are_no_level() -> None:
    for inner in ('{"/":"' + LINK + '"}', '{"/":{"bytes":""}}', "1"):
        decode_dag_json(("[" * 128 + inner + "]" * 128).encode())
