"""SDS messages through lines: every kind in every profile, bytes of other implementations, stable codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

VECTORS = Path(__file__).parents[1] / "vectors" / "sds" / "js-messages.json"
ENCODED = {row["name"]: row for row in json.loads(VECTORS.read_text())["encoded"]}
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
