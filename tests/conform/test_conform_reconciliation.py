"""The messages of set reconciliation through `culm conform`, both ways, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

KEY = "ab" * 32
KEY_CBOR = "7840" + "6162" * 32
ITEM = [KEY, 3, 300]
ITEM_CBOR = "83" + KEY_CBOR + "0319012c"
BOUND = [KEY, 0, 0]
BOUND_CBOR = "83" + KEY_CBOR + "0000"
SCHEMA = "blob_v1"

MESSAGES: list[tuple[dict[str, Any], str]] = [
    ({"type": "empty_set", "session_id": 51, "can_respond": True}, "83141833f5"),
    ({"type": "empty_set", "session_id": 51, "can_respond": False}, "83141833f4"),
    ({"type": "lower_bound", "session_id": 51, "value": BOUND}, "83151833" + BOUND_CBOR),
    ({"type": "payload", "session_id": 51, "value": ITEM}, "83161833" + ITEM_CBOR),
    ({"type": "payload", "session_id": 51, "value": BOUND}, "83161833" + BOUND_CBOR),
    ({"type": "payload", "session_id": 51, "value": ITEM, "can_respond": False}, f"84161833{ITEM_CBOR}f4"),
    (
        {"type": "payload", "session_id": 51, "value": ITEM, "can_respond": True, "upper_bound": BOUND},
        f"85161833{ITEM_CBOR}f5{BOUND_CBOR}",
    ),
    ({"type": "empty_payload", "session_id": 51, "upper_bound": BOUND}, "83171833" + BOUND_CBOR),
    ({"type": "done", "session_id": 51, "upper_bound": ITEM}, "8318181833" + ITEM_CBOR),
    (
        {"type": "fingerprint", "session_id": 51, "fingerprint": "01020304", "upper_bound": BOUND},
        "84181918334401020304" + BOUND_CBOR,
    ),
    (
        {"type": "fingerprint", "session_id": 0, "fingerprint": "", "upper_bound": BOUND},
        "8418190040" + BOUND_CBOR,
    ),
    ({"type": "terminal", "session_id": 51}, "82181a1833"),
]


@pytest.mark.parametrize(("message", "data"), MESSAGES)
def test_both_ways_split_anywhere(talk: Any, message: dict[str, Any], data: str) -> None:
    assert talk.ok("p2panda.message.encode", message=message) == {"bytes": data}
    talk.ok("p2panda.stream.open", name="s")
    for split in range(0, len(data) + 1, 2):
        first = talk.ok("p2panda.stream.feed", name="s", bytes=data[:split])["messages"]
        second = talk.ok("p2panda.stream.feed", name="s", bytes=data[split:])["messages"]
        assert first + second == [message]


@pytest.mark.parametrize(("message", "data"), MESSAGES)
def test_every_member_is_asked_for(talk: Any, message: dict[str, Any], data: str) -> None:
    optional = {"can_respond", "upper_bound"} if message["type"] == "payload" else set()
    for name in message.keys() - optional:
        rest = {key: value for key, value in message.items() if key != name}
        assert talk.code("p2panda.message.encode", message=rest) == "conform.argument"
        assert talk.code("p2panda.message.encode", message={**message, name: {}}) == "conform.argument"


@pytest.mark.parametrize(
    ("message", "data"),
    [
        (
            {"type": "done", "session_id": 51, "upper_bound": ["ab12" + "00" * 30, 0, 0]},
            "8318181833" + "42ab12",
        ),
        ({"type": "lower_bound", "session_id": 51, "value": ["00" * 32, 0, 0]}, "83151833" + "40"),
        ({"type": "payload", "session_id": 51, "value": ITEM}, "83161833" + f"835820{KEY}0319012c"),
    ],
)
def test_the_compact_form_both_ways(talk: Any, message: dict[str, Any], data: str) -> None:
    assert talk.ok("p2panda.message.encode", message=message, form="compact") == {"bytes": data}
    talk.ok("p2panda.stream.open", name="s")
    assert talk.ok("p2panda.stream.feed", name="s", bytes=data) == {"messages": [message]}
    assert talk.code("p2panda.message.encode", message=message, form="short") == "conform.argument"


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ({"type": "payload", "value": ITEM, "upper_bound": BOUND}, "conform.argument"),
        ({"type": "payload", "value": ITEM, "can_respond": 1}, "conform.argument"),
        ({"type": "empty_set", "can_respond": "true"}, "conform.argument"),
        ({"type": "done", "upper_bound": [KEY, 0]}, "conform.argument"),
        ({"type": "done", "upper_bound": [KEY[2:], 0, 0]}, "conform.argument"),
        ({"type": "done", "upper_bound": [KEY, -1, 0]}, "conform.argument"),
        ({"type": "done", "upper_bound": [KEY, 0, 2**64]}, "conform.argument"),
        ({"type": "fingerprint", "fingerprint": "0", "upper_bound": BOUND}, "conform.argument"),
        (
            {"type": "fingerprint", "fingerprint": "00" * 65, "upper_bound": BOUND},
            "p2panda.message.fingerprint_size",
        ),
        ({"type": "reconciliation"}, "conform.argument"),
    ],
)
def test_what_cannot_be_encoded(talk: Any, message: dict[str, Any], code: str) -> None:
    assert talk.code("p2panda.message.encode", message={"session_id": 0, **message}) == code


@pytest.mark.parametrize(
    ("data", "code"),
    [
        ("8114", "item_count"),
        ("831400f6", "item_kind"),
        ("841600" + ITEM_CBOR + BOUND_CBOR, "item_kind"),
        ("831600" + BOUND_CBOR[:-2] + "20", "item_range"),
        ("831500" + BOUND_CBOR.replace("6162", "4142"), "public_key"),
        ("841819005841" + "00" * 65 + BOUND_CBOR, "fingerprint_size"),
    ],
)
def test_bytes_that_are_no_message(talk: Any, data: str, code: str) -> None:
    talk.ok("p2panda.stream.open", name="s")
    assert talk.code("p2panda.stream.feed", name="s", bytes=data) == f"p2panda.message.{code}"


@pytest.mark.parametrize(("message", "data"), MESSAGES)
def test_a_peer_in_log_height_mode_passes_over_them(talk: Any, message: dict[str, Any], data: str) -> None:
    talk.ok("p2panda.peer.open", name="a", peer_id="01", schema_ids=[SCHEMA], now=1)
    talk.ok("p2panda.peer.connect", name="a", remote_peer_id="02", now=1)
    session_id = message["session_id"]
    request = {"type": "sync_request", "session_id": session_id, "mode": 0, "schema_ids": [SCHEMA]}
    for sent in (talk.ok("p2panda.message.encode", message=request)["bytes"], data):
        answer = talk.ok("p2panda.peer.receive", name="a", remote_peer_id="02", bytes=sent, now=2)
    assert answer["send"] == ""
    (event,) = answer["events"]
    assert (event["kind"], event["code"], event["session_id"]) == (
        "ignored",
        "p2panda.session.unexpected_message",
        session_id,
    )
    talk.ok("p2panda.peer.close", name="a")


ODD = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4), st.just(ITEM), st.just(BOUND)
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.sampled_from(MESSAGES), st.data())
def test_odd_members_are_answered(talk: Any, known: tuple[dict[str, Any], str], data: st.DataObject) -> None:
    message = known[0]
    name = data.draw(st.sampled_from(sorted(message)))
    odd = data.draw(st.one_of(ODD, st.lists(ODD, max_size=4)))
    answer = talk.answer("p2panda.message.encode", {"message": {**message, name: odd}})
    assert answer.get("error", {}).get("code") != "conform.defect", answer
