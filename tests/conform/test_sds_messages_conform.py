"""SDS messages through lines: every kind in every profile, bytes of other implementations, stable codes."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

VECTORS = Path(__file__).parents[1] / "vectors" / "sds"
ENCODED = {row["name"]: row for row in json.loads((VECTORS / "js-messages.json").read_text())["encoded"]}
BLOOMS = [
    row
    for row in map(json.loads, (VECTORS / "bloom-js.jsonl").read_text().splitlines())
    if row["rule"] == "hex" and row["count"] <= 1_000
]
IDS = {"sender_id": "alice", "message_id": "m1", "channel_id": "c"}
CONTENT = {
    **IDS,
    "kind": "content",
    "lamport_timestamp": 1_763_760_000_000,
    "causal_history": [{"message_id": "m0", "retrieval_hint": "07", "sender_id": "bob"}],
    "bloom_filter": "00ff",
    "content": "6f6b",
    "repair_request": [{"message_id": "lost"}],
}
SYNC = {**IDS, "kind": "sync", "lamport_timestamp": 2**63 - 1, "causal_history": [], "repair_request": []}
EPHEMERAL = {**IDS, "kind": "ephemeral", "content": "00", "causal_history": [], "repair_request": []}


@pytest.mark.parametrize("profile", ["spec", "js", "nim"])
@pytest.mark.parametrize("message", [CONTENT, SYNC, EPHEMERAL], ids=lambda message: message["kind"])
def test_messages_there_and_back(talk: Any, message: dict[str, Any], profile: str) -> None:
    if (profile, message["kind"]) == ("nim", "ephemeral"):
        code = talk.code("sds.message.encode", message=message, profile=profile)
        assert code == "sds.message.field_missing", "no message without a Lamport timestamp there"
        return
    wire = talk.ok("sds.message.encode", message=message, profile=profile)["bytes"]
    assert talk.ok("sds.message.decode", bytes=wire, profile=profile) == {"message": message}


def test_the_profile_of_the_specification_is_taken_where_none_is_named(talk: Any) -> None:
    wire = talk.ok("sds.message.encode", message=CONTENT)
    assert wire == talk.ok("sds.message.encode", message=CONTENT, profile="spec")
    assert wire != talk.ok("sds.message.encode", message=CONTENT, profile="nim")


@pytest.mark.parametrize("name", ["lamport 2^64 - 1", "unicode ids", "sync", "ephemeral"])
def test_bytes_of_waku_sds(talk: Any, name: str) -> None:
    row = ENCODED[name]
    assert talk.ok("sds.message.encode", message=row["message"], profile="js") == {"bytes": row["bytes"]}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"kind": "sync"}, "conform.argument"),
        ({"kind": 5}, "conform.argument"),
        ({"lamport_timestamp": -1}, "conform.argument"),
        ({"lamport_timestamp": 2**64}, "conform.argument"),
        ({"causal_history": ["m0"]}, "conform.argument"),
        ({"causal_history": [{}]}, "conform.argument"),
        ({"content": "0"}, "conform.argument"),
        ({"sender_id": None}, "conform.argument"),
        ({"sender_id": ""}, "sds.message.field_missing"),
        ({"message_id": "\ud800"}, "sds.message.text"),
    ],
)
def test_what_is_no_message_is_refused(talk: Any, change: dict[str, Any], code: str) -> None:
    assert talk.code("sds.message.encode", message={**CONTENT, **change}) == code


def test_arguments_are_checked(talk: Any) -> None:
    assert talk.code("sds.message.encode", message=[]) == "conform.argument"
    assert talk.code("sds.message.encode", message=CONTENT, profile="go") == "conform.argument"
    assert talk.code("sds.message.decode", bytes="zz") == "conform.argument"
    assert talk.code("sds.message.decode", bytes="0a") == "sds.message.truncated"


@pytest.mark.parametrize("profile", ["spec", "js", "nim"])
def test_filters_hold_what_was_put_in(talk: Any, profile: str) -> None:
    built = talk.ok("sds.bloom.build", ids=["a1", "b2"], profile=profile)["bytes"]
    assert len(built) // 2 == (18_768 if profile == "nim" else 18_752)
    ids = ["b2", "c3", "a1"]
    assert talk.ok("sds.bloom.contains", bytes=built, ids=ids, profile=profile) == {
        "hits": [True, False, True]
    }


@pytest.mark.parametrize("row", BLOOMS, ids=lambda row: f"{row['count']} of {row['capacity']}")
def test_filters_of_waku_sds(talk: Any, row: dict[str, Any]) -> None:
    measures = {"profile": "js", "capacity": row["capacity"], "error_rate": row["error_rate"]}
    ids = [sha256(f"id-{n}".encode()).hexdigest() for n in range(row["count"])]
    built = talk.ok("sds.bloom.build", ids=ids, **measures)["bytes"]
    assert sha256(bytes.fromhex(built)).hexdigest() == row["sha256"]
    absent = [sha256(f"id-absent-{n}".encode()).hexdigest() for n in range(200)]
    hits = talk.ok("sds.bloom.contains", bytes=built, ids=absent, **measures)["hits"]
    assert [n for n, hit in enumerate(hits) if hit] == row["false_hits"]


@pytest.mark.parametrize(
    ("measures", "code"),
    [
        ({"capacity": 0}, "conform.argument"),
        ({"error_rate": 1}, "conform.argument"),
        ({"error_rate": "0.1"}, "conform.argument"),
        ({"error_rate": 1.5}, "sds.bloom.shape"),
        ({"capacity": 2**32}, "sds.bloom.shape"),
        ({"capacity": 20_000}, "sds.bloom.shape"),
    ],
)
def test_measures_are_checked(talk: Any, measures: dict[str, Any], code: str) -> None:
    built = talk.ok("sds.bloom.build", ids=["a1"])["bytes"]
    assert talk.code("sds.bloom.contains", bytes=built, ids=["a1"], **measures) == code
