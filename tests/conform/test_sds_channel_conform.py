"""SDS channels through lines: a conversation, every event, settings under many names, hostile requests."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from culm_models.conform.sds.settings import ALIASES
from culm_models.sds.events import Event

NOW = 1_763_760_000_000
DOC = (Path(__file__).parents[2] / "docs" / "conform.md").read_text()
PROFILES = ["spec", "js", "nim"]


def opened(talk: Any, name: str, profile: str = "spec", **given_settings: Any) -> None:
    talk.ok(
        "sds.open",
        name=name,
        profile=profile,
        participant_id=name,
        channel_id="c",
        settings=given_settings,
        now=NOW,
        random_seed=7,
    )


def sent(talk: Any, name: str, content: str = "6869", now: int = NOW, **options: Any) -> tuple[str, Any]:
    """The wire, and the event."""
    answer = talk.ok("sds.send", name=name, content=content, now=now, **options)
    (wire,) = answer["send"]
    assert answer["events"][0]["kind"] == "sent"
    return wire, answer["events"][0]


def kinds(answer: Any) -> list[str]:
    return [event["kind"] for event in answer["events"]]


@pytest.mark.parametrize("profile", PROFILES)
def test_messages_out_of_order_are_delivered_in_order(talk: Any, profile: str) -> None:
    opened(talk, "alice", profile, causal_history_size=2)
    opened(talk, "bob", profile, causal_history_size=2)
    made = [sent(talk, "alice", content=f"{number:02x}") for number in range(3)]
    ids = [event["message_id"] for _, event in made]
    assert len(set(ids)) == 3
    first = talk.ok("sds.receive", name="bob", bytes=made[2][0], now=NOW)
    assert kinds(first) == ["received", "missing"]
    assert first["events"][1]["missing"] == ids[:2]
    assert first["fetch"][0]["attempt"] == 1
    talk.ok("sds.receive", name="bob", bytes=made[1][0], now=NOW)
    state = talk.ok("sds.state", name="bob")
    assert state["incoming"] == [
        {"id": ids[2], "message_id": ids[2], "missing": ids[:2]},
        {"id": ids[1], "message_id": ids[1], "missing": ids[:1]},
    ]
    last = talk.ok("sds.receive", name="bob", bytes=made[0][0], now=NOW)
    assert kinds(last) == ["received", "delivered", "delivered", "delivered"]
    delivered = [(event["message_id"], event["position"], event["content"]) for event in last["events"][1:]]
    assert delivered == [(message_id, number, f"{number:02x}") for number, message_id in enumerate(ids)]
    ours, theirs = talk.ok("sds.state", name="alice"), talk.ok("sds.state", name="bob")
    assert ours["log"] == theirs["log"]
    assert ours["bloom"] == theirs["bloom"]
    assert [one["state"] for one in ours["outgoing"]] == ["unacknowledged"] * 3


def test_a_sync_acknowledges(talk: Any) -> None:
    opened(talk, "alice")
    opened(talk, "bob")
    wire, event = sent(talk, "alice")
    talk.ok("sds.receive", name="bob", bytes=wire, now=NOW, retrieval_hint="0a0b")
    due = talk.ok("sds.state", name="bob")["next_due_ms"]
    assert talk.ok("sds.tick", name="bob", now=due, only="outgoing")["send"] == []
    sync = talk.ok("sds.tick", name="bob", now=due, only="sync")
    assert kinds(sync) == ["sync_sent"]
    message = talk.ok("sds.message.decode", bytes=sync["send"][0])["message"]
    assert message["causal_history"] == [
        {"message_id": event["message_id"], "retrieval_hint": "0a0b", "sender_id": "alice"}
    ]
    answer = talk.ok("sds.receive", name="alice", bytes=sync["send"][0], now=due)
    assert kinds(answer) == ["sync_received", "acknowledged"]
    assert answer["events"][1]["evidence"] == ["bob"]
    assert talk.ok("sds.state", name="alice")["outgoing"] == []


def test_resends_are_the_same_bytes_and_end(talk: Any) -> None:
    opened(talk, "alice", retry_interval_ms=1_000, max_retry_attempts=3, resend_max_ms=4_000)
    wire, _ = sent(talk, "alice")
    retries: list[str] = []
    events: list[str] = []
    for second in range(1, 60):
        answer = talk.ok("sds.tick", name="alice", now=NOW + second * 1_000, only="outgoing")
        retries += answer["send"]
        events += kinds(answer)
    assert retries == [wire] * 3
    assert events == ["gave_up"]


def test_a_lost_message_leaves_a_gap(talk: Any) -> None:
    opened(talk, "alice", causal_history_size=1)
    opened(talk, "bob", timeoutForLostMessagesMs=60_000)
    _, lost = sent(talk, "alice")
    wire, event = sent(talk, "alice")
    talk.ok("sds.receive", name="bob", bytes=wire, now=NOW)
    answer = talk.ok("sds.tick", name="bob", now=NOW + 60_000, only="incoming")
    assert [one["kind"] for one in answer["events"][-2:]] == ["lost", "delivered"]
    assert answer["events"][-2]["waiting"] == [event["message_id"]]
    assert answer["events"][-1]["gap"] == [lost["message_id"]]
    assert talk.ok("sds.state", name="bob")["lost"] == [lost["message_id"]]


def test_ephemeral_messages_leave_the_state_as_it_was(talk: Any) -> None:
    opened(talk, "alice")
    opened(talk, "bob")
    before = talk.ok("sds.state", name="bob")
    wire, event = sent(talk, "alice", ephemeral=True)
    assert "lamport_timestamp" not in event
    answer = talk.ok("sds.receive", name="bob", bytes=wire, now=NOW)
    assert kinds(answer) == ["received", "delivered"]
    assert answer["events"][1]["ephemeral"] is True
    assert talk.ok("sds.state", name="bob") == before


def test_equal_seeds_and_inputs_give_equal_bytes(talk: Any) -> None:
    wires = []
    for _ in range(2):
        opened(talk, "alice")
        wires.append([sent(talk, "alice")[0], talk.ok("sds.tick", name="alice", now=NOW + 60_000)["send"]])
        talk.ok("sds.close", name="alice")
    assert wires[0] == wires[1]


def test_refusals_have_codes(talk: Any) -> None:
    opened(talk, "alice")
    sent(talk, "alice", message_id="m1")
    assert (
        talk.code("sds.send", name="alice", content="00", message_id="m1", now=NOW) == "sds.message_id.known"
    )
    assert talk.code("sds.send", name="alice", content="", now=NOW) == "sds.content.empty"
    assert talk.code("sds.tick", name="alice", now=NOW, only="all") == "conform.argument"
    assert talk.code("sds.state", name="nobody") == "conform.machine"
    assert talk.code("sds.open", name="x", participant_id="", channel_id="c", now=NOW) == "sds.participant"
    answer = talk.ok("sds.receive", name="alice", bytes="ff", now=NOW)
    assert kinds(answer) == ["rejected"]
    assert answer["events"][0]["code"] == "sds.message.truncated"
    assert answer["events"][0]["message"]


@pytest.mark.parametrize("alias", sorted(ALIASES))
def test_every_alias_is_a_setting_and_documented(talk: Any, alias: str) -> None:
    values: dict[str, Any] = {
        "enable_repair": False,
        "t_min": 5,
        "error_rate": 0.01,
        "bloom_filter_error_rate": 0.01,
    }
    opened(talk, "alice", **{alias: values.get(alias, 200_000 if "t_max" in alias else 7)})
    assert f"`{alias}`" in DOC


def test_settings_may_be_spelled_in_camel_case_without_units_and_in_groups(talk: Any) -> None:
    opened(
        talk,
        "alice",
        causalHistorySize=1,
        lost_timeout=1_000,
        syncFloorMs=5_000,
        repairConfig={"tMin": 10, "tMax": "20", "numResponseGroups": 2},
        bloomErrorRate=0.01,
        lostTimeoutMs=1_000,
    )
    for number in range(2):
        sent(talk, "alice", now=NOW + number)
    sync = talk.ok("sds.tick", name="alice", now=NOW + 60_000, only="sync")["send"][0]
    assert len(talk.ok("sds.message.decode", bytes=sync)["message"]["causal_history"]) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"no_such": 1},
        {"causal_history_size": -1},
        {"causal_history_size": "x"},
        {"causal_history_size": True},
        {"bloom_error_rate": 2},
        {"bloom_error_rate": "0.1"},
        {"enable_repair": 1},
        {"t_min": 5, "t_max": 4},
        {"lost_timeout": 5, "lost_timeout_ms": 6},
        {"repair_config": {"nothing": 1}},
        {"max_log_entries": 0},
    ],
)
def test_settings_that_do_not_fit_are_refused(talk: Any, wrong: dict[str, Any]) -> None:
    code = talk.code("sds.open", name="x", participant_id="a", channel_id="c", settings=wrong, now=NOW)
    assert code == "conform.argument"


def test_a_filter_of_impossible_measures_is_refused(talk: Any) -> None:
    code = talk.code(
        "sds.open", name="x", participant_id="a", channel_id="c", settings={"capacity": 1 << 39}, now=NOW
    )
    assert code == "sds.bloom.shape"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
@given(
    do=st.sampled_from(["open", "send", "receive", "tick", "state"]),
    arguments=st.dictionaries(
        st.sampled_from(
            [
                "name",
                "profile",
                "participant_id",
                "channel_id",
                "content",
                "bytes",
                "now",
                "only",
                "settings",
                "message_id",
                "retrieval_hint",
                "ephemeral",
                "source",
                "random_seed",
            ]
        ),
        st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.floats() | st.lists(st.none()),
    ),
)
def test_no_request_is_a_defect(talk: Any, do: str, arguments: dict[str, Any]) -> None:
    talk.raw(json.dumps({"id": 1, "do": f"sds.{do}", **arguments}))
    complete = {"name": f"n{do}", "participant_id": "a", "channel_id": "c", "now": NOW, "content": "00"}
    talk.raw(json.dumps({"id": 1, "do": f"sds.{do}", **complete, "bytes": "00", **arguments}))


def subclasses() -> list[type[Event]]:
    return [found for found in Event.__subclasses__() if "kind" in vars(found)]


def test_every_event_is_documented_with_its_fields() -> None:
    part = DOC.split("## SDS channels\n")[1].split("\n## ")[0]
    rows = dict(line[2:-2].split(" | ", 1) for line in part.splitlines() if line.startswith("| `"))
    assert set(rows) == {f"`{event.kind}`" for event in subclasses()}
    for event in subclasses():
        shown = {field.name for field in fields(event)} - {"message_id", "participant_id"}
        for name in shown:
            assert f"`{'message' if name == 'reason' else name}`" in rows[f"`{event.kind}`"], (
                event.kind,
                name,
            )
