"""DAG-JSON: links and bytes in one form; strict JSON below it (reference 4.3)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given

from culm_models.dag.blocks.cid import RAW, cid_of
from culm_models.dag.blocks.dag_json import decode_dag_json, encode_dag_json, strict_json
from culm_models.dag.errors import CidMalformed, DagError, DagJsonMalformed, NonCanonical
from tests.models.dag.drawn_values import VALUES

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
