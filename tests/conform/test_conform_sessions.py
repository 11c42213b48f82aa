"""Two peers back to back, each behind lines."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.logs import SCHEMA, author, make_log

IDS = {"a": "01" * 32, "b": "09" * 32}
NOW = 1_700_000_000_000
LOG_A = make_log(author("conform a"), 0, 5)
LOG_B = make_log(author("conform b"), 2, 9, schema_id=SCHEMA)


class Pair:
    """Two peers, a link between them, and all events so far."""

    def __init__(self, talk: Any, step: int = 0, **settings: Any) -> None:
        self.talk, self.step = talk, step
        self.wire = {"a": "", "b": ""}
        self.events: dict[str, list[dict[str, Any]]] = {"a": [], "b": []}
        for name, log in (("a", LOG_A), ("b", LOG_B)):
            opened = {"schema_ids": [SCHEMA], "entries": talk.held(log), "now": NOW, **settings}
            assert talk.ok("p2panda.peer.open", name=name, peer_id=IDS[name], **opened) == {}

    def do(self, name: str, do: str, **arguments: Any) -> None:
        answer = self.talk.ok(f"p2panda.peer.{do}", name=name, now=NOW, **arguments)
        other = "b" if name == "a" else "a"
        sent = answer["send"]
        if isinstance(sent, list):
            assert all(part["to"] == IDS[other] for part in sent)
            sent = "".join(part["bytes"] for part in sent)
        self.wire[other] += sent
        self.events[name] += answer["events"]

    def connect(self) -> None:
        self.do("a", "connect", remote_peer_id=IDS["b"], dialled=True)
        self.do("b", "connect", remote_peer_id=IDS["a"], dialled=False)
        self.settle()

    def settle(self) -> None:
        for _ in range(1_000):
            if not any(self.wire.values()):
                return
            for name, other in (("a", "b"), ("b", "a")):
                data, self.wire[name] = self.wire[name], ""
                size = 2 * self.step or max(1, len(data))
                for start in range(0, len(data), size):
                    part = data[start : start + size]
                    self.do(name, "receive", remote_peer_id=IDS[other], bytes=part)
        raise AssertionError("no end")

    def sync(self, name: str, mode: int = 0) -> None:
        other = "b" if name == "a" else "a"
        self.do(name, "sync", remote_peer_id=IDS[other], mode=mode, schema_ids=[SCHEMA])

    def state(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.talk.ok("p2panda.peer.state", name=name)
        return found

    def kinds(self, name: str) -> list[str]:
        return [event["kind"] for event in self.events[name]]

    def assert_equal(self, count: int = 14) -> None:
        states = [self.state(name)["log_heights"] for name in "ab"]
        assert states[0] == states[1]
        assert sum(height for _, _, height in states[0]) == count


MODES = pytest.mark.parametrize("mode", [0, 1])


@MODES
@pytest.mark.parametrize("step", [0, 1, 7])
def test_catch_up_then_live(talk: Any, step: int, mode: int) -> None:
    pair = Pair(talk, step)
    pair.connect()
    pair.sync("a", mode)
    pair.settle()
    pair.assert_equal()
    for name, count in (("a", 9), ("b", 5)):
        assert pair.kinds(name).count("entry_accepted") == count
        assert pair.kinds(name).count("session_started") == pair.kinds(name).count("live") == 1
        assert pair.state(name)["sessions"][0]["state"] == "live"
    new = make_log(author("conform a"), 0, 1, after=LOG_A)[-1]
    pair.do("a", "publish", entry=new.entry_bytes.hex(), operation=new.payload_bytes.hex())
    pair.settle()
    pair.assert_equal(15)
    pair.do("b", "stop_live", remote_peer_id=IDS["a"], session_id=0)
    pair.settle()
    assert "session_done" in pair.kinds("a") and "session_done" in pair.kinds("b")
    assert pair.state("a")["sessions"] == pair.state("b")["sessions"] == []


@MODES
def test_without_live_mode_the_session_ends(talk: Any, mode: int) -> None:
    pair = Pair(talk, live_mode=False)
    pair.connect()
    pair.sync("b", mode)
    pair.settle()
    pair.assert_equal()
    assert "live" not in pair.kinds("a") and "session_done" in pair.kinds("a")


@MODES
def test_both_start_at_once(talk: Any, mode: int) -> None:
    pair = Pair(talk)
    pair.connect()
    pair.sync("a", mode)
    pair.sync("b", mode)
    pair.settle()
    pair.assert_equal()
    assert [s["local"] for s in pair.state("a")["sessions"]] == [False], "the lower id gives way"
    assert [s["local"] for s in pair.state("b")["sessions"]] == [True]


def test_unannounced_schemas_are_no_longer_served(talk: Any) -> None:
    pair = Pair(talk)
    pair.connect()
    pair.do("b", "announce", schema_ids=[])
    pair.settle()
    assert pair.state("a")["announcements"][IDS["b"]]["schema_ids"] == []
    pair.sync("a")
    assert pair.kinds("a")[-1] == "ignored" and pair.state("a")["sessions"] == []


@MODES
def test_a_session_resumes_after_the_link_went_down(talk: Any, mode: int) -> None:
    pair = Pair(talk, step=1)
    pair.connect()
    pair.sync("a", mode)
    for name, other in (("b", "a"), ("a", "b")):
        data, pair.wire[name] = pair.wire[name], ""
        pair.do(name, "receive", remote_peer_id=IDS[other], bytes=data)
    pair.wire["b"] = pair.wire["b"][:900]
    data, pair.wire["b"] = pair.wire["b"], ""
    pair.do("b", "receive", remote_peer_id=IDS["a"], bytes=data)
    for name, other in (("a", "b"), ("b", "a")):
        pair.do(name, "disconnect", remote_peer_id=IDS[other])
        assert "session_failed" in pair.kinds(name)
    pair.wire = {"a": "", "b": ""}
    pair.connect()
    pair.sync("b")
    pair.settle()
    pair.assert_equal()
    assert pair.kinds("b").count("entry_accepted") == 5


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"announce_offers": True},
        {"announce_offers": True, "compact_form": False},
        {"rule": "upstream", "payload_threshold": 1, "range_division": 2},
        {"lift": "siphash128"},
        {"lift": "xor64", "lifts": ["xor64", "add64"]},
    ],
)
def test_what_set_reconciliation_took_is_told(talk: Any, settings: dict[str, Any]) -> None:
    pair = Pair(talk, settings=settings)
    pair.connect()
    pair.sync("b", 1)
    pair.settle()
    pair.assert_equal()
    for name in "ab":
        (told,) = [event for event in pair.events[name] if event["kind"] == "reconciled"]
        assert told["differing_logs"] == 2
        assert told["rounds"] >= 2 and told["bytes_out"] > 0 and told["messages_in"] > 0
        assert "duplicate" not in pair.kinds(name)


def test_an_offer_is_told_with_its_announcement(talk: Any) -> None:
    pair = Pair(talk, settings={"announce_offers": True, "lifts": ["add128"]}, modes=[1, 0])
    pair.connect()
    announced = next(event for event in pair.events["b"] if event["kind"] == "announced")
    assert announced["schema_ids"] == [SCHEMA]
    assert announced["offer"] == {"modes": [0, 1], "lifts": ["add128"], "compact": True, "absence": True}
    assert pair.state("b")["announcements"][IDS["a"]]["schema_ids"] == [SCHEMA]


@pytest.mark.parametrize(("modes", "expected"), [([1, 0], 1), ([0, 1], 0), ([0], 0)])
def test_the_dialler_takes_the_first_of_its_modes_that_the_remote_offers(
    talk: Any, modes: list[int], expected: int
) -> None:
    settings = {"auto_sync": True, "announce_offers": True}
    pair = Pair(talk, settings=settings, modes=modes)
    pair.connect()
    assert [session["mode"] for session in pair.state("a")["sessions"]] == [expected]
    pair.assert_equal()
