"""Chotki's bytes and values through lines: the recorded tables, and stable codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

TABLES: dict[str, list[dict[str, Any]]] = json.loads(
    (Path(__file__).parents[1] / "vectors" / "chotki" / "rdx_tables.json").read_text()
)


def test_integers(talk: Any) -> None:
    for kind, table, name in (("uint64", "zip_uint64", "u64"), ("int64", "zip_int64", "i64")):
        for row in TABLES[table]:
            assert talk.ok("chotki.zip.encode", kind=kind, n=row[name]) == {"bytes": row["zip"]}
            assert talk.ok("chotki.zip.decode", kind=kind, bytes=row["zip"]) == {"n": int(row[name])}
    for row in TABLES["zip_float64"]:
        assert talk.ok("chotki.zip.encode", kind="float64", bits=row["f64_bits"]) == {"bytes": row["zip"]}
        assert talk.ok("chotki.zip.decode", kind="float64", bytes=row["zip"]) == {"bits": row["f64_bits"]}
    for row in TABLES["zip_uint64_pair"]:
        big, lil = int(row["big"]), int(row["lil"])
        assert talk.ok("chotki.zip.encode", kind="pair", big=big, lil=row["lil"]) == {"bytes": row["zip"]}
        assert talk.ok("chotki.zip.decode", kind="pair", bytes=row["zip"]) == {"big": big, "lil": lil}


def test_pairs_of_any_length(talk: Any) -> None:
    for row in TABLES["unzip_uint64_pair_by_length"]:
        found = talk.ok("chotki.zip.decode", kind="pair", bytes=row["bytes"], compat="go")
        assert found == {"big": int(row["big"]), "lil": int(row["lil"])}
    assert talk.code("chotki.zip.decode", kind="pair", bytes="00" * 7) == "chotki.pair_length"


def test_ids(talk: Any) -> None:
    for row in TABLES["ids"]:
        if row["bad"]:
            assert talk.code("chotki.id", text=row["text"]) == "chotki.id_text"
            continue
        assert talk.ok("chotki.id", text=row["text"]) == {
            "src": row["src"],
            "pro": row["pro"],
            "printed": row["printed"],
            "zip": row["zip"],
            "object_key": row["okey_S"],
            "vector_key": row["vkey"],
            "block_zip": row["block_zip"],
        }


def test_records(talk: Any) -> None:
    for row in TABLES["tlv_headers"]:
        found = talk.ok("chotki.tlv.header", letter=row["letter"], body_length=row["body_length"])
        assert found == {"header": row["header"]}
    for row in TABLES["tlv_probe"]:
        data = row.pop("bytes")
        assert talk.ok("chotki.tlv.probe", bytes=data) == row
    assert talk.ok("chotki.tlv.probe", bytes="") == {"letter": 0, "header_length": 0, "body_length": 0}


def test_packets(talk: Any) -> None:
    for row in TABLES["packets"]:
        parsed = row["parsed"]
        if parsed.pop("error") != "<nil>":
            assert talk.code("chotki.packet.parse", packet=row["packet"]).startswith("chotki.")
            continue
        found = talk.ok("chotki.packet.parse", packet=row["packet"])
        assert found == {**parsed, "letter": chr(parsed["letter"])}


def test_merges(talk: Any) -> None:
    for row in TABLES["merges"] + TABLES["odd_merges"]:
        found = talk.ok("chotki.rdx.merge", type=row["type"], inputs=row["inputs"])
        assert found["merged"] == row["merged"]
        assert ("differs" in found) == (row["type"] in "OY")
    assert talk.ok("chotki.rdx.merge", type="O", inputs=["0a", "0a"])["differs"] is False
    assert talk.ok("chotki.rdx.merge", type="O", inputs=["0a", "0b"])["differs"] is True


def test_differences(talk: Any) -> None:
    for row in TABLES["xdiff"]:
        found = talk.ok("chotki.rdx.xdiff", type=row["type"], tlv=row["tlv"], wanted=row["wanted"])
        assert found == {"diff": row["diff"]}
    for row in TABLES["deltas"]:
        named = {name: row[name] for name in ("type", "tlv", "new", "new_tlv", "src") if name in row}
        assert talk.ok("chotki.rdx.delta", **named, compat="go") == {"delta": row["delta"]}


def test_stamps_and_classes(talk: Any) -> None:
    for row in TABLES["stamp_source"]:
        found = talk.ok("chotki.rdx.stamp", type=row["type"], tlv=row["tlv"], src=row["src"])
        assert found == {"tlv": row["result"]}
    for row in TABLES["classes"]:
        assert talk.ok("chotki.class.parse", tlv=row["tlv"]) == {"fields": row["fields"]}


def test_texts(talk: Any) -> None:
    for row in TABLES["text"]:
        if row.get("nil"):
            code = talk.code("chotki.rdx.parse", type=row["type"], text=row["text"], compat="go")
            assert code == "chotki.rdx.text"
            continue
        if "text" in row:
            found = talk.ok("chotki.rdx.parse", type=row["type"], text=row["text"], compat="go")
            assert found == {"tlv": row["tlv"]}
        assert talk.ok("chotki.rdx.print", type=row["type"], tlv=row["tlv"]) == {"text": row["printed"]}


@pytest.mark.parametrize(
    ("do", "arguments", "code"),
    [
        ("chotki.zip.encode", {"kind": "uint64", "n": -1}, "conform.argument"),
        ("chotki.zip.encode", {"kind": "uint64", "n": 1 << 64}, "conform.argument"),
        ("chotki.zip.encode", {"kind": "int64", "n": 1 << 63}, "conform.argument"),
        ("chotki.zip.encode", {"kind": "float64", "bits": "00"}, "conform.argument"),
        ("chotki.zip.encode", {"kind": "float32"}, "conform.argument"),
        ("chotki.zip.decode", {"kind": "uint64", "bytes": "00" * 9}, "chotki.value"),
        ("chotki.zip.decode", {"kind": "float32", "bytes": ""}, "conform.argument"),
        ("chotki.tlv.header", {"letter": "é", "body_length": 1}, "conform.argument"),
        ("chotki.tlv.header", {"letter": "S", "body_length": 1 << 31}, "conform.argument"),
        ("chotki.packet.parse", {"packet": ""}, "chotki.packet"),
        ("chotki.packet.parse", {"packet": "71026900"}, "chotki.letter"),
        ("chotki.packet.parse", {"packet": "65020a"}, "chotki.packet"),
        ("chotki.packet.parse", {"packet": "650969070102030405060 7".replace(" ", "")}, "chotki.pair_length"),
        ("chotki.rdx.parse", {"type": "I", "text": "x"}, "chotki.rdx.text"),
        ("chotki.rdx.parse", {"type": "II", "text": "1"}, "conform.argument"),
        ("chotki.rdx.parse", {"type": "I", "text": "1", "compat": "rust"}, "conform.argument"),
        ("chotki.rdx.parse", {"type": "T", "text": "\ud800"}, "chotki.rdx.text"),
        ("chotki.rdx.print", {"type": "I", "tlv": "30" + "00" * 9}, "chotki.value"),
        ("chotki.rdx.merge", {"type": "I", "inputs": ["zz"]}, "conform.argument"),
        ("chotki.rdx.xdiff", {"type": "I", "tlv": "30", "wanted": "76"}, "chotki.value"),
        ("chotki.rdx.delta", {"type": "E", "tlv": "", "new": "{1}"}, "conform.argument"),
        ("chotki.rdx.delta", {"type": "L", "tlv": "61", "new_tlv": ""}, "chotki.value"),
        ("chotki.class.parse", {"tlv": "74023053"}, "chotki.value"),
    ],
)
def test_what_cannot_be_done_has_a_stable_code(
    talk: Any, do: str, arguments: dict[str, Any], code: str
) -> None:
    assert talk.code(do, **arguments) == code


def test_go_takes_an_id_of_an_impossible_length(talk: Any) -> None:
    found = talk.ok("chotki.packet.parse", packet="65096907" + "01" * 7, compat="go")
    assert found == {"letter": "E", "id": "0-0", "ref": "0-0", "body": ""}
