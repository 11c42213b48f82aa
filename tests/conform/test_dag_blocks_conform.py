"""Values, CIDs and CARs through lines of DAG replication: forms, codes, bad arguments."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.blocks.dag_cbor import encode_dag_cbor
from culm_models.dag.blocks.dag_json import to_dag_json
from culm_models.dag.errors import DagJsonMalformed
from tests.models.dag.drawn_values import CIDS, VALUES

LINK = "bafyreihaskmlkagl5wmhocs5lhu2cbbdmym5wknaiwywnvnokkswppcmiy"


@given(VALUES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_values(talk: Any, value: Any) -> None:
    data = encode_dag_cbor(value)
    found = talk.ok("cbor.decode", bytes=data.hex())
    try:
        spelled = to_dag_json(value)
    except DagJsonMalformed:
        assert "value" not in found
        return
    assert talk.ok("cbor.encode", value=found["value"]) == {"bytes": data.hex(), "cid": found["cid"]}
    assert found["value"] == spelled


def test_null_and_decimal_strings_are_values(talk: Any) -> None:
    assert talk.ok("cbor.encode", value=None)["bytes"] == "f6"
    assert talk.ok("cbor.encode", value="12")["bytes"] == "623132"
    assert talk.ok("cbor.encode", value=1.0)["bytes"] == "fb3ff0000000000000"
    assert talk.ok("cbor.encode", value=(1 << 64) - 1)["bytes"] == "1bffffffffffffffff"
    assert talk.code("cbor.encode") == "conform.request"
    assert talk.ok("cbor.decode", bytes="a1612f01") == {
        "cid": talk.ok("cbor.decode", bytes="a1612f01")["cid"]
    }


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ({"/": 1}, "dag.dag_json"),
        ({"/": {"bytes": "AQI="}}, "dag.dag_json"),
        ({"/": LINK, "a": 1}, "dag.dag_json"),
        ({"/": LINK.upper()}, "dag.bad_cid"),
        ({"/": "zdpuAnjMCFzuFTmTWrvtLGDKS3nyv9WFofr4PhC4LJUkRuTNx"}, "dag.bad_cid"),
        (1 << 64, "dag.non_canonical"),
        (float("nan"), "dag.non_canonical"),
        ("\ud800", "dag.non_canonical"),
    ],
)
def test_values_that_cannot_be_written(talk: Any, value: Any, code: str) -> None:
    assert talk.code("cbor.encode", value=value) == code


@pytest.mark.parametrize(
    ("do", "arguments", "code"),
    [
        ("cbor.decode", {}, "conform.request"),
        ("cbor.decode", {"bytes": "0"}, "conform.request"),
        ("cbor.decode", {"bytes": 1}, "conform.request"),
        ("cbor.decode", {"bytes": ""}, "dag.non_canonical"),
        ("cbor.decode", {"bytes": "d82a4100"}, "dag.bad_cid"),
        ("cid.parse", {}, "conform.request"),
        ("cid.parse", {"cid": 1}, "conform.request"),
        ("cid.parse", {"cid": "x"}, "dag.bad_cid"),
        ("cid.parse", {"bytes": "00"}, "dag.bad_cid"),
        ("cid.sort", {"cids": "x"}, "conform.request"),
        ("cid.sort", {"cids": [1]}, "conform.request"),
        ("cid.sort", {"cids": ["x"]}, "dag.bad_cid"),
        ("cid.format", {"version": 0, "codec": 85, "multihash_code": 18, "digest": "00" * 32}, "dag.bad_cid"),
        ("cid.format", {"version": 0, "codec": 112, "multihash_code": 18, "digest": "00"}, "dag.bad_cid"),
        ("cid.format", {"version": 2, "codec": 112, "multihash_code": 18, "digest": "00"}, "dag.bad_cid"),
        (
            "cid.format",
            {"version": 1, "codec": 1 << 63, "multihash_code": 18, "digest": ""},
            "conform.request",
        ),
    ],
)
def test_codes(talk: Any, do: str, arguments: dict[str, Any], code: str) -> None:
    assert talk.code(do, **arguments) == code


@given(CIDS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
def test_cids(talk: Any, cid: Cid) -> None:
    found = talk.ok("cid.parse", cid=cid.text)
    assert talk.ok("cid.parse", bytes=found["bytes"]) == found
    parts = {name: found[name] for name in ("version", "codec", "multihash_code", "digest")}
    assert talk.ok("cid.format", **parts) == {"cid": cid.text}


def test_cids_are_sorted_by_text(talk: Any) -> None:
    digits, letters = LINK[:10] + "2" + LINK[11:], LINK
    assert talk.ok("cid.sort", cids=[letters, "bafkqaaa", digits]) == {"cids": ["bafkqaaa", digits, letters]}


def test_cars(talk: Any) -> None:
    block = {"cid": "bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku", "bytes": ""}
    found = talk.ok("car.encode", roots=["bafkqaaa"], blocks=[block, block])
    again = talk.ok("car.decode", bytes=found["bytes"])
    assert again == {"roots": ["bafkqaaa"], "blocks": [block, block], "cid": found["cid"]}
    assert talk.code("car.encode", roots=[], blocks=[{**block, "bytes": "00"}]) == "dag.hash"
    assert talk.code("car.encode", roots=[], blocks=[{"cid": block["cid"]}]) == "conform.request"
    assert talk.code("car.encode", roots=["x"], blocks=[]) == "dag.bad_cid"
    assert talk.code("car.decode", bytes=found["bytes"] + "00") == "dag.car_section"
    assert talk.code("car.decode") == "conform.request"
