"""Chotki replicas through lines: sessions, live packets through a hub, refusals, state, hostile requests."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from culm_models.chotki.events import SessionEvent
from culm_models.chotki.settings import ChotkiSettings
from culm_models.conform.chotki.replicas import OPERATIONS

NOW = 1_763_760_000_000
ROOT = Path(__file__).parents[2]
DOC = (ROOT / "docs" / "conform.md").read_text()
RECORDED = json.loads((ROOT / "tests/vectors/chotki/full_connector_empty_listener.json").read_text())
CLASS = "7406310253004e61"
NAMED = "7303306869"


def opened(talk: Any, name: str, src: int, **options: Any) -> None:
    assert talk.ok("chotki.replica.open", name=name, src=src, now=NOW, **options) == {}


def received(talk: Any, name: str, session: str, records: list[str], now: int = NOW) -> dict[str, Any]:
    found: dict[str, Any] = talk.ok(
        "chotki.session.receive", name=name, session=session, bytes="".join(records), now=now
    )
    assert set(found) == {"send", "events", "closed", "others"}
    return found


def kinds(answer: dict[str, Any]) -> list[str]:
    return [event["kind"] for event in answer["events"] if event["kind"] != "state"]


def joined(talk: Any, a: str, b: str, **options: Any) -> None:
    """Two replicas whose sessions are named after each other, in sync."""
    h_a = talk.ok("chotki.session.open", name=a, session=b, role="listener", now=NOW, **options)["send"]
    h_b = talk.ok("chotki.session.open", name=b, session=a, role="connector", now=NOW, **options)["send"]
    diff_a = received(talk, a, b, h_b)["send"]
    diff_b = received(talk, b, a, h_a)["send"]
    assert kinds(received(talk, a, b, diff_b)) == ["sync_committed"]
    assert kinds(received(talk, b, a, diff_a)) == ["sync_committed"]


def test_a_recorded_session_by_lines_is_the_recorded_one(talk: Any) -> None:
    streams: dict[str, list[str]] = {}
    for side, src in (("listener", "10"), ("connector", "11")):
        trace = next(
            one["hex"][-20:] for one in RECORDED["records"] if (one["sender"], one["letter"]) == (side, "H")
        )
        opened(talk, side, int(src), store=RECORDED["before"][side], compat="go")
        answer = talk.ok("chotki.session.open", name=side, session="s", mode=7, trace=trace, now=NOW)
        assert answer["closed"] is False
        streams[side] = answer["send"]
    first = {side: list(records) for side, records in streams.items()}
    for side, other in (("listener", "connector"), ("connector", "listener")):
        streams[side] += received(talk, side, "s", first[other])["send"]
    for side, other in (("listener", "connector"), ("connector", "listener")):
        assert "".join(streams[side]) == RECORDED["streams"][f"1:{side}"]
        received(talk, side, "s", streams[other][1:])
        state = talk.ok("chotki.replica.state", name=side)
        assert state["store"] == RECORDED["after"][side]
        assert state["sessions"]["s"]["state"] == "SendLive"
    assert talk.ok("chotki.replica.state", name="connector")["counter"] == "b-5"


def test_a_change_goes_through_a_hub_to_its_other_sessions(talk: Any) -> None:
    for name, src in (("a", 10), ("hub", 11), ("c", 12)):
        opened(talk, name, src, random_seed=src)
    joined(talk, "a", "hub")
    joined(talk, "c", "hub")
    made = talk.ok("chotki.replica.commit", name="a", letter="C", ref="0-0", body=CLASS, now=NOW)
    assert made["id"] == "a-1"
    assert made["sends"] == [{"session": "hub", "send": [made["packet"]]}]
    at_hub = received(talk, "hub", "a", [made["packet"]])
    assert at_hub["send"] == []
    assert at_hub["others"] == [{"session": "c", "send": [made["packet"]]}]
    assert at_hub["events"] == [{"kind": "packet", "letter": "C", "id": "a-1"}]
    assert kinds(received(talk, "c", "hub", [made["packet"]])) == ["packet"]
    made = talk.ok("chotki.replica.commit", name="c", letter="O", ref="a-1", body=NAMED, now=NOW)
    back = received(talk, "hub", "c", [made["packet"]])["others"]
    received(talk, "a", "hub", back[0]["send"])
    a, c = (talk.ok("chotki.replica.state", name=name) for name in "ac")
    assert a["store"]["4f000000000000000c000000000000100153"] == "32000c6869"
    assert {key: value for key, value in a["store"].items() if key not in c["store"]} == {}
    assert talk.ok("chotki.replica.dump", name="c")["text"].count("\n") == len(c["store"]) + 1


def test_what_is_refused_is_answered_with_b_an_event_and_closed(talk: Any) -> None:
    opened(talk, "a", 10)
    talk.ok("chotki.session.open", name="a", session="s", now=NOW)
    answer = received(talk, "a", "s", ["00"])
    assert answer["send"] == ["6210320a03" + b"chotki.record".hex()]
    (refused,) = [event for event in answer["events"] if event["kind"] == "refused"]
    assert set(refused) == {"kind", "code", "message"}
    assert refused["code"] == "chotki.record"
    assert answer["closed"] is True
    again = received(talk, "a", "s", ["00"])
    assert (again["send"], again["events"], again["closed"]) == ([], [], True)
    assert talk.ok("chotki.replica.state", name="a")["sessions"]["s"]["state"] == "SendNone"
    assert talk.ok("chotki.session.open", name="a", session="s", now=NOW)["closed"] is False


def test_a_handshake_that_does_not_come_ends_the_session_in_a_tick(talk: Any) -> None:
    opened(talk, "a", 10, settings={"ping_wait_ms": 500})
    talk.ok("chotki.session.open", name="a", session="s", now=NOW)
    assert talk.ok("chotki.session.tick", name="a", now=NOW + 499) == {
        "sends": [],
        "events": [],
        "closed": [],
    }
    answer = talk.ok("chotki.session.tick", name="a", now=NOW + 500)
    assert answer["closed"] == ["s"]
    assert answer["sends"][0]["session"] == "s"
    assert answer["events"][0]["session"] == "s"
    assert answer["events"][0]["code"] == "chotki.handshake_timeout"


def test_the_state_of_a_session_says_what_goes_which_way(talk: Any) -> None:
    opened(talk, "a", 10)
    opened(talk, "b", 11)
    trace = "00010203040506070809"
    talk.ok("chotki.session.open", name="a", session="s", now=NOW, trace=trace)
    before = talk.ok("chotki.replica.state", name="a")["sessions"]["s"]
    assert before["trace"] == trace
    assert "peer_trace" not in before
    tap = talk.ok("chotki.session.open", name="b", session="s", now=NOW, mode="rl")["send"]
    answer = received(talk, "a", "s", tap)
    (handshake,) = [event for event in answer["events"] if event["kind"] == "handshake"]
    assert (handshake["peer"], handshake["mode"], handshake["live"]) == ("b-0-3", 5, True)
    state = talk.ok("chotki.replica.state", name="a")["sessions"]["s"]
    assert (state["live"], state["sends"], state["receives"]) == (True, True, False)
    assert state["peer_vector"] == "76040000003076020b03"
    assert state["syncs"] == []
    assert [one[:2] for one in answer["send"]] == ["44", "56"]


def test_a_session_ends_from_either_side_or_with_its_transport(talk: Any) -> None:
    opened(talk, "a", 10)
    opened(talk, "b", 11)
    joined(talk, "a", "b")
    closed = talk.ok("chotki.session.close", name="a", session="b", now=NOW)
    assert closed["closed"] is True
    assert closed["send"][0].endswith(b"shutdown".hex())
    assert talk.ok("chotki.session.close", name="a", session="b", now=NOW)["send"] == []
    bye = received(talk, "b", "a", closed["send"])
    assert [event for event in bye["events"] if event["kind"] == "bye"] == [
        {"kind": "bye", "reason": "shutdown"}
    ]
    assert bye["send"] == []
    joined(talk, "a", "b")
    lost = talk.ok("chotki.session.lost", name="a", session="b", now=NOW)["events"]
    assert [event["kind"] for event in lost] == ["lost", "state"]
    assert talk.ok("chotki.session.lost", name="a", session="b", now=NOW)["events"] == []


def test_a_commit_that_would_be_refused_is_an_error_and_changes_nothing(talk: Any) -> None:
    opened(talk, "a", 10)
    before = talk.ok("chotki.replica.state", name="a")
    for letter, ref, body, code in (
        ("O", "a-1", "", "chotki.no_fields"),
        ("Y", "0-0", "", "chotki.no_fields"),
        ("O", "0-0", NAMED, "chotki.reference"),
        ("E", "0-0", "31017300", "chotki.reference"),
        ("Y", "a-1", NAMED, "chotki.reference"),
        ("E", "a-1-1", "3101" + NAMED, "chotki.offset"),
        ("E", "a-1", "66020010" + NAMED, "chotki.offset"),
        ("E", "a-1", "3101", "chotki.packet"),
        ("E", "a-1", "310130", "chotki.field_letter"),
        ("E", "a-1", "31017801ff", "chotki.field_letter"),
        ("E", "a-1", "31017300", "chotki.value"),
        ("C", "0-0", "74023053", "chotki.value"),
        ("D", "0-0", "", "chotki.letter"),
        ("E", "a-1-1-1", "", "chotki.id_text"),
    ):
        arguments = {"name": "a", "letter": letter, "ref": ref, "body": body, "now": NOW}
        assert talk.code("chotki.replica.commit", **arguments) == code, (letter, ref, body)
    assert talk.ok("chotki.replica.state", name="a") == before


@pytest.mark.parametrize("setting", [field.name for field in fields(ChotkiSettings)])
def test_every_setting_can_be_given(talk: Any, setting: str) -> None:
    value: Any = "quarantine" if setting == "unreadable_values" else 77
    opened(talk, "a", 10, settings={setting: value})
    opened(talk, "b", 11, settings={setting.removesuffix("_ms"): value})


def test_settings_and_arguments_that_do_not_fit_are_refused(talk: Any) -> None:
    for unfit in (
        {"settings": {"ping": 1}},
        {"settings": {"ping_wait_ms": 0}},
        {"settings": {"ping_wait_ms": "soon"}},
        {"settings": {"unreadable_values": "drop"}},
        {"settings": {"max_record_bytes": 1 << 40}},
        {"compat": "rust"},
        {"store": {"00": ""}},
        {"store": {"00" * 18: ""}},
        {"store": {"4f" * 18: "x"}},
        {"src": -1},
    ):
        arguments: dict[str, Any] = {"name": "a", "src": 10, "now": NOW, **unfit}
        assert talk.code("chotki.replica.open", **arguments) == "conform.argument", unfit
    opened(talk, "a", 10)
    assert talk.code("chotki.replica.open", name="a", src=10, now=NOW) == "conform.machine"
    for misfit in ({"mode": 8}, {"mode": "x"}, {"mode": [1]}, {"trace": "00"}, {"role": "hub"}):
        code = talk.code("chotki.session.open", name="a", session="s", now=NOW, **misfit)
        assert code == "conform.argument", misfit
    talk.ok("chotki.session.open", name="a", session="s", now=NOW)
    assert talk.code("chotki.session.open", name="a", session="s", now=NOW) == "conform.machine"
    assert talk.code("chotki.session.receive", name="a", session="t", bytes="", now=NOW) == "conform.machine"
    assert talk.ok("chotki.replica.close", name="a") == {}
    assert talk.code("chotki.replica.state", name="a") == "conform.machine"


def test_the_documentation_names_every_event_and_no_other() -> None:
    part = DOC.split("## Chotki replicas\n")[1].split("\n## ")[0].split("| event |")[1]
    named = {kind for row in part.split("\n| `")[1:] for kind in row.split(" |")[0].strip("`").split("`, `")}
    # A driver may have events of its own.
    ours = (kind for kind in SessionEvent.__subclasses__() if kind.__module__ == SessionEvent.__module__)
    assert named == {kind.kind for kind in ours}


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from(["s", "a", "00", "O"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)
NAMES = [
    "name",
    "session",
    "bytes",
    "now",
    "src",
    "store",
    "settings",
    "mode",
    "trace",
    "letter",
    "ref",
    "body",
]


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    operation=st.sampled_from([one.name for one in OPERATIONS if one.name != "chotki.replica.close"]),
    arguments=st.dictionaries(st.sampled_from(NAMES), ANYTHING, max_size=8),
)
def test_no_request_causes_a_defect(talk: Any, operation: str, arguments: dict[str, Any]) -> None:
    arguments = {"name": "a", "session": "s", "now": NOW, **arguments}
    talk.raw(json.dumps({"id": 1, "do": "chotki.replica.open", "name": "a", "src": 10, "now": NOW}))
    talk.raw(json.dumps({"id": 1, "do": "chotki.session.open", "name": "a", "session": "s", "now": NOW}))
    talk.raw(json.dumps({"id": 1, "do": operation, **arguments}))
