"""Bamboo Point-2-Point peers through lines: conversations, settings, policies, events, errors of calls."""

from __future__ import annotations

from typing import Any

import pytest

from culm_models.bamboo.entry import sign_entry
from culm_models.bamboo.hashes import YAMF, YASMF, HashFlavour
from tests.models.bamboo_p2p.logs import AUTHOR, LOG, make_log

NOW = 1_763_760_000_000
NAMED: dict[str, Any] = {"public_key": LOG[0].hex(), "log_id": LOG[1]}
SAFE: dict[str, Any] = {"send_window": 0, "receive_window": 0}


def entries(*seq_nums: int, payloads: bool = True, flavour: HashFlavour = YAMF) -> list[dict[str, Any]]:
    """Entries of the log as `open` and `add` take them."""
    log = make_log(13, flavour)
    return [
        {
            "entry": log[number - 1].entry_bytes.hex(),
            **({"payload": (log[number - 1].payload or b"").hex()} if payloads else {}),
        }
        for number in seq_nums
    ]


class Ends:
    """Peers that are opened and connected, whose bytes go over until nothing is left."""

    def __init__(self, talk: Any) -> None:
        self.talk = talk
        self.events: list[dict[str, Any]] = []
        self.dropped: list[int] = []
        self.under_way: list[tuple[str, str, str, str]] = []
        self.carries = False

    def open(self, name: str, held: list[dict[str, Any]], policy: Any = None, **settings: Any) -> None:
        given = {**SAFE, **settings, **({"policy": policy} if policy else {})}
        self.talk.ok("bamboo_p2p.peer.open", name=name, entries=held, settings=given, now=NOW, random_seed=1)

    def connect(self, one: str, other: str) -> None:
        first = self.call("connect", one, remote=other, role="proactive", carried=False)
        second = self.call("connect", other, remote=one, role="reactive", carried=False)
        self.carry(one, other, first)
        self.carry(other, one, second)

    def call(self, do: str, name: str, carried: bool = True, **arguments: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self.talk.ok(f"bamboo_p2p.peer.{do}", name=name, now=NOW, **arguments)
        self.events += [{"at": name, **event} for event in answer["events"]]
        if carried:
            self.carry(name, arguments.get("remote"), answer)
        return answer

    def carry(self, sender: str, remote: str | None, answer: dict[str, Any]) -> None:
        going = [{"remote": remote, **answer}] if remote is not None and "control" in answer else []
        going += answer.get("others", []) + answer.get("sends", [])
        self.dropped += [one["dropped"] for one in going if "dropped" in one]
        self.under_way += [
            (one["remote"], sender, channel, one[channel])
            for one in going
            for channel in ("control", "data")
            if one[channel]
        ]
        if not self.carries:
            self.carries = True
            while self.under_way:
                name, source, channel, data = self.under_way.pop(0)
                self.call("receive", name, remote=source, channel=channel, bytes=data)
            self.carries = False

    def kinds(self, name: str) -> list[str]:
        return [event["kind"] for event in self.events if event["at"] == name]

    def held(self, name: str) -> dict[int, bool]:
        """Which entries a peer holds, and whether with their payloads."""
        state = self.talk.ok("bamboo_p2p.peer.state", name=name)
        log = [one.entry_bytes.hex() for one in make_log(13)]
        return {
            log.index(one["entry"]) + 1: "payload" in one for held in state["held"] for one in held["entries"]
        }


@pytest.fixture
def ends(talk: Any) -> Ends:
    return Ends(talk)


def pair(ends: Ends, *held: int, policy: Any = None, **settings: Any) -> None:
    """Alice, who holds entries, and bob, who holds nothing."""
    ends.open("alice", entries(*(held or range(1, 14))), policy, **settings)
    ends.open("bob", [], **settings)
    ends.connect("alice", "bob")


def test_a_whole_log_comes_over(ends: Ends) -> None:
    pair(ends)
    answer = ends.call("propose", "bob", remote="alice", **NAMED, start=1, end=13)
    assert answer["id"] == 1
    assert answer["data"] == ""
    assert ends.held("bob") == dict.fromkeys(range(1, 14), True)
    state = ends.talk.ok("bamboo_p2p.peer.state", name="bob")
    assert state["requests"] == []
    assert state["remotes"] == [{"remote": "alice", "credit": 64, "granted": 64}]
    assert ends.kinds("bob")[:3] == ["setup", "confirmed", "cancelled"]
    assert set(ends.kinds("bob")[3:]) == {"entry", "payload", "freed"}
    entry = next(event for event in ends.events if event["kind"] == "entry")
    assert entry == {
        "at": "bob", "remote": "alice", "id": 1, "kind": "entry", **NAMED, "seq_num": 1
    }  # fmt: skip


def test_connect_sends_the_setup_and_then_the_grant(ends: Ends) -> None:
    ends.talk.ok("bamboo_p2p.peer.open", name="a", settings={"send": "greedy", "send_window": 300})
    answer = ends.talk.ok("bamboo_p2p.peer.connect", name="a", remote="b", role="reactive", now=NOW)
    assert answer == {"control": "02f9012cfa0100000040", "data": "", "events": []}
    ends.open("none", [], credit=0, receive="greedy")
    answer = ends.talk.ok("bamboo_p2p.peer.connect", name="none", remote="b", role="reactive", now=NOW)
    assert answer["control"] == "010000"


def test_the_setup_event_says_what_was_derived(ends: Ends) -> None:
    ends.open("a", [], send="greedy", send_window=300, receive_window=7)
    ends.open("b", [], receive="greedy", receive_window=200)
    ends.connect("a", "b")
    found = [{k: v for k, v in event.items() if k not in ("at", "remote")} for event in ends.events]
    assert found == [
        {"kind": "setup", "send": "safe", "receive": "greedy", "send_window": 0, "receive_window": 200},
        {"kind": "setup", "send": "greedy", "receive": "safe", "send_window": 200, "receive_window": 0},
    ]


def test_what_one_remote_brings_goes_on_to_others_by_the_same_call(ends: Ends) -> None:
    pair(ends)
    ends.open("carol", [])
    ends.connect("bob", "carol")
    ends.call("propose", "carol", remote="bob", **NAMED, start=1)
    assert ends.held("carol") == {}
    ends.call("propose", "bob", remote="alice", **NAMED, start=1, end=4)
    assert ends.held("carol") == dict.fromkeys(range(1, 5), True)
    state = ends.talk.ok("bamboo_p2p.peer.state", name="carol")
    assert state["requests"] == [
        {
            "remote": "bob",
            "id": 1,
            "mine": True,
            "state": "confirmed",
            "sent": {"pieces": 0, "bytes": 0},
            "received": {"pieces": 8, "bytes": 0},
        }
    ]


def test_what_is_added_goes_out_at_once(ends: Ends) -> None:
    pair(ends, 1)
    ends.call("propose", "bob", remote="alice", **NAMED, start=1)
    answer = ends.call("add", "alice", entries=entries(2, 3))
    assert [one["remote"] for one in answer["sends"]] == ["bob"]
    assert ends.held("bob") == {1: True, 2: True, 3: True}
    assert ends.call("tick", "alice")["sends"] == []


def test_policies_answer_proposals(ends: Ends) -> None:
    pair(ends, policy={"answer": "refuse", "code": 129})
    ends.call("propose", "bob", remote="alice", **NAMED, start=1, end=2)
    assert [event["code"] for event in ends.events if event["kind"] == "cancelled"] == [129, 131]
    assert ends.held("bob") == {}


def test_a_proposal_that_waits_is_confirmed_by_adjust(ends: Ends) -> None:
    pair(ends, policy={"answer": "wait"})
    answer = ends.call("propose", "bob", remote="alice", **NAMED, start=1, end=9)
    assert ends.held("bob") == {}
    given = {"remote": "bob", "request": answer["id"]}
    assert ends.talk.code("bamboo_p2p.peer.adjust", name="alice", **given, min=1) == "bamboo_p2p.inactive"
    ends.call("adjust", "alice", **given, eagerness="all", end=3)
    # The upper bound is still 9, so that entry 4 comes as the upper pool of 3.
    assert ends.held("bob") == {1: True, 2: True, 3: True, 4: False}


def test_a_confirmation_by_policy_sets_all_its_fields(ends: Ends) -> None:
    pair(
        ends,
        policy={
            "eagerness": "threshold",
            "threshold": 9,
            "may_skip": False,
            "min": 2,
            "max": 99,
            "end": 5,
            "upper": 6,
        },
    )
    proposed = ends.call("propose", "bob", carried=False, remote="alice", **NAMED, start=1, end=9, upper=13)
    answer = ends.call(
        "receive", "alice", carried=False, remote="bob", channel="control", bytes=proposed["control"]
    )
    decoded = ends.talk.ok("bamboo_p2p.control.decode", bytes=answer["control"])["messages"]
    assert decoded[0] == {
        "type": "adjust", "id": 1, "eagerness": "threshold", "threshold": 9, "end": 5, "upper": 6, "min": 2,
        "max": 99,
    }  # fmt: skip


def test_a_pulling_end_sends_nothing(ends: Ends) -> None:
    ends.open("alice", entries(1, 2, 3))
    ends.open("bob", entries(1))
    ends.connect("alice", "bob")
    ends.call("propose", "alice", remote="bob", **NAMED, start=1, direction="pull")
    assert ends.held("bob") == {1: True}
    ends.call("cancel", "alice", remote="bob", request=0)
    ends.call("propose", "alice", remote="bob", **NAMED, start=1, lower=1, direction="push")
    assert ends.held("bob") == {1: True, 2: True, 3: True}


def test_parts_complement_each_other_in_greedy_mode(ends: Ends) -> None:
    log = make_log(3)
    whole = log[2].payload or b""
    for name, (start, end) in {"alice": (0, 5), "bob": (5, len(whole))}.items():
        parts = [{"offset": start, "bytes": whole[start:end].hex()}]
        given = [*entries(1, 2), {"entry": log[2].entry_bytes.hex(), "parts": parts}]
        ends.open(name, given, send="greedy", receive="greedy")
        held = ends.talk.ok("bamboo_p2p.peer.state", name=name)["held"][0]["entries"][2]
        assert held["parts"] == [{"offset": start, "length": end - start}]
    ends.connect("alice", "bob")
    ends.call("propose", "alice", remote="bob", **NAMED, start=3, end=3)
    assert ends.held("alice")[3]
    assert ends.held("bob")[3]
    assert not ends.dropped


def test_a_violation_is_answered_with_its_number(ends: Ends) -> None:
    pair(ends)
    answer = ends.call("receive", "bob", carried=False, remote="alice", channel="data", bytes="01")
    assert answer["dropped"] == 1
    assert answer["events"] == [{"remote": "alice", "kind": "dropped", "code": "bamboo_p2p.malformed"}]
    state = ends.talk.ok("bamboo_p2p.peer.state", name="bob")
    assert state["remotes"] == []
    ends.call("connect", "bob", carried=False, remote="alice", role="reactive")


def test_forks_are_listed_and_told(ends: Ends) -> None:
    pair(ends, 1)
    other = sign_entry(AUTHOR, LOG[1], 1, b"another", flavour=YAMF).hex()
    answer = ends.call("add", "alice", entries=[{"entry": other}])
    assert answer["events"] == [{"kind": "fork", **NAMED}]
    proofs = ends.talk.ok("bamboo_p2p.peer.state", name="alice")["proofs"]
    assert proofs == [{**NAMED, "entries": [entries(1)[0]["entry"], other]}]
    ends.call("propose", "bob", remote="alice", **NAMED, start=1)
    assert ends.talk.ok("bamboo_p2p.peer.state", name="bob")["proofs"] == proofs
    assert "fork" in ends.kinds("bob")


def test_errors_of_calls(ends: Ends) -> None:
    ends.open("alice", entries(*range(1, 14)), credit=1)
    ends.open("bob", [])
    ends.connect("alice", "bob")

    def code(do: str, **arguments: Any) -> str:
        found: str = ends.talk.code(f"bamboo_p2p.peer.{do}", name="bob", remote="alice", now=NOW, **arguments)
        return found

    assert code("propose", **NAMED, start=1, sparse=True) == "bamboo_p2p.sparse_open"
    assert code("propose", **NAMED, start=2, end=2, payload_only=True) == "bamboo_p2p.missing"
    assert code("propose", **NAMED, start=2, offset=0) == "bamboo_p2p.missing"
    assert code("propose", **NAMED, start=0) == "bamboo_p2p.range"
    assert code("propose", **NAMED, start=3, end=2) == "bamboo_p2p.range"
    assert code("adjust", request=1, eagerness="all") == "bamboo_p2p.inactive"
    ends.call("propose", "bob", remote="alice", **NAMED, start=1, min=3)
    assert code("propose", **NAMED, start=1) == "bamboo_p2p.no_credit"
    assert code("adjust", request=1, end=5) == "bamboo_p2p.end_fixed"
    assert code("adjust", request=1, min=2) == "bamboo_p2p.interest"
    assert code("adjust", request=1, eagerness="threshold") == "bamboo_p2p.malformed"
    assert code("cancel", request=1, code=131) == "conform.argument"
    ends.call("cancel", "bob", remote="alice", request=1)
    assert code("cancel", request=1) == "bamboo_p2p.inactive"
    assert code("receive", channel="voice", bytes="") == "conform.argument"
    assert ends.talk.code("bamboo_p2p.peer.open", name="x", settings={"wrong": 1}) == "conform.argument"
    evidence = {"policy": {"answer": "refuse", "code": 133}}
    assert ends.talk.code("bamboo_p2p.peer.open", name="x", settings=evidence) == "conform.argument"


def test_a_refused_proposal_is_an_error_until_the_remote_is_connected_again(ends: Ends) -> None:
    pair(ends, policy={"answer": "refuse"})
    ends.call("propose", "bob", remote="alice", **NAMED, start=1)
    again = {"name": "bob", "remote": "alice", **NAMED, "start": 1, "now": NOW}
    assert ends.talk.code("bamboo_p2p.peer.propose", **again) == "bamboo_p2p.refused"
    ends.call("disconnect", "bob", remote="alice")
    ends.call("disconnect", "alice", remote="bob")
    ends.connect("alice", "bob")
    assert ends.call("propose", "bob", carried=False, remote="alice", **NAMED, start=1)["id"] == 1


def test_what_is_given_is_verified(ends: Ends) -> None:
    (one,) = entries(1)
    wrong = {
        "bamboo.signature": {"entry": one["entry"][:-2] + "00"},
        "bamboo.payload_size": {"entry": one["entry"], "payload": "00"},
        "bamboo.payload_hash": {"entry": one["entry"], "payload": "00" * (len(one["payload"]) // 2)},
    }
    for code, given in wrong.items():
        assert ends.talk.code("bamboo_p2p.peer.open", name="x", entries=[given]) == code
    beyond = {"entry": one["entry"], "parts": [{"offset": 9, "bytes": "00"}]}
    assert ends.talk.code("bamboo_p2p.peer.open", name="x", entries=[beyond]) == "bamboo.payload_size"


def test_either_flavour_is_spoken(ends: Ends) -> None:
    for name, held in {"a": entries(1, 2, flavour=YASMF), "b": []}.items():
        ends.talk.ok("bamboo_p2p.peer.open", name=name, hash="yasmf", entries=held, settings=SAFE)
    ends.connect("a", "b")
    ends.call("propose", "b", remote="a", **NAMED, start=1, end=2)
    held = ends.talk.ok("bamboo_p2p.peer.state", name="b")["held"]
    assert held == [{**NAMED, "entries": entries(1, 2, flavour=YASMF)}]


@pytest.mark.parametrize(
    "wrong",
    [
        {"expected_hash": YASMF.hash(b"").hex(), "start": 4, "lower": 4},
        {"expected_hash": "00", "start": 4, "lower": 4},
        {"upper": 4},
        {"lower": 1, "offset": 0},
        {"threshold": 3},
    ],
)
def test_what_cannot_stand_in_a_proposal_is_no_argument_and_spends_no_credit(
    ends: Ends, wrong: dict[str, Any]
) -> None:
    ends.open("a", [])
    ends.open("b", entries(1))
    ends.connect("a", "b")
    arguments = {"name": "b", "remote": "a", **NAMED, "start": 1, "now": NOW, **wrong}
    assert ends.talk.code("bamboo_p2p.peer.propose", **arguments) == "conform.argument"
    (remote,) = ends.talk.ok("bamboo_p2p.peer.state", name="b")["remotes"]
    assert remote == {"remote": "a", "credit": 64, "granted": 64}


def test_a_setting_or_a_field_of_a_policy_that_there_is_not_is_no_argument(ends: Ends) -> None:
    for settings in ({"window": 1}, {"policy": {"answers": "refuse"}}, {"policy": {"code": 133}}):
        code = ends.talk.code("bamboo_p2p.peer.open", name="a", settings=settings, now=NOW)
        assert code == "conform.argument"
