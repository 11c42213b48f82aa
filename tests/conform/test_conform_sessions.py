"""Two peers back to back, each behind lines; and one peer opposite a remote that the test plays."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.logs import OTHER_SCHEMA, SCHEMA, author, make_log

IDS = {"a": "01" * 32, "b": "09" * 32}
NOW = 1_700_000_000_000
LOG_A = make_log(author("conform a"), 0, 5)
LOG_B = make_log(author("conform b"), 2, 9, schema_id=SCHEMA)
FOREIGN = make_log(author("conform c"), 0, 1, schema_id=OTHER_SCHEMA)


def held(log: Any) -> list[dict[str, str]]:
    """Entries as `p2panda.peer.open` takes them."""
    return [{"entry": e.entry_bytes.hex(), "operation": e.operation_bytes.hex()} for e in log]


class Pair:
    """Two peers, a link between them, and all events so far."""

    def __init__(self, talk: Any, step: int = 0, **settings: Any) -> None:
        self.talk, self.step = talk, step
        self.wire = {"a": "", "b": ""}
        self.events: dict[str, list[dict[str, Any]]] = {"a": [], "b": []}
        for name, log in (("a", LOG_A), ("b", LOG_B)):
            opened = {"schema_ids": [SCHEMA], "entries": held(log), "now": NOW, **settings}
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

    def sync(self, name: str) -> None:
        other = "b" if name == "a" else "a"
        self.do(name, "sync", remote_peer_id=IDS[other], mode=0, schema_ids=[SCHEMA])

    def state(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.talk.ok("p2panda.peer.state", name=name)
        return found

    def kinds(self, name: str) -> list[str]:
        return [event["kind"] for event in self.events[name]]

    def assert_equal(self, count: int = 14) -> None:
        states = [self.state(name)["log_heights"] for name in "ab"]
        assert states[0] == states[1]
        assert sum(height for _, _, height in states[0]) == count


@pytest.mark.parametrize("step", [0, 1, 7])
def test_catch_up_then_live(talk: Any, step: int) -> None:
    pair = Pair(talk, step)
    pair.connect()
    pair.sync("a")
    pair.settle()
    pair.assert_equal()
    for name, count in (("a", 9), ("b", 5)):
        assert pair.kinds(name).count("entry_accepted") == count
        assert pair.kinds(name).count("session_started") == pair.kinds(name).count("live") == 1
        assert pair.state(name)["sessions"][0]["state"] == "live"
    new = make_log(author("conform a"), 0, 1, after=LOG_A)[-1]
    pair.do("a", "publish", entry=new.entry_bytes.hex(), operation=new.operation_bytes.hex())
    pair.settle()
    pair.assert_equal(15)
    pair.do("b", "stop_live", remote_peer_id=IDS["a"], session_id=0)
    pair.settle()
    assert "session_done" in pair.kinds("a") and "session_done" in pair.kinds("b")
    assert pair.state("a")["sessions"] == pair.state("b")["sessions"] == []


def test_without_live_mode_the_session_ends(talk: Any) -> None:
    pair = Pair(talk, live_mode=False)
    pair.connect()
    pair.sync("b")
    pair.settle()
    pair.assert_equal()
    assert "live" not in pair.kinds("a") and "session_done" in pair.kinds("a")


def test_both_start_at_once(talk: Any) -> None:
    pair = Pair(talk)
    pair.connect()
    pair.sync("a")
    pair.sync("b")
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


def test_a_session_resumes_after_the_link_went_down(talk: Any) -> None:
    pair = Pair(talk, step=1)
    pair.connect()
    pair.sync("a")
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


def played(talk: Any, log: Any = ()) -> Any:
    """A peer with a link up, and a function that says messages to it."""
    talk.ok("p2panda.peer.open", name="p", peer_id="09", schema_ids=[SCHEMA], entries=held(log), now=NOW)
    talk.ok("p2panda.peer.connect", name="p", remote_peer_id="01", now=NOW)

    def say(**message: Any) -> tuple[list[Any], list[Any]]:
        data = talk.ok("p2panda.message.encode", message=message)["bytes"]
        answer = talk.ok("p2panda.peer.receive", name="p", remote_peer_id="01", bytes=data, now=NOW)
        name = f"read {talk._next_id}"
        talk.ok("p2panda.stream.open", name=name)
        return talk.ok("p2panda.stream.feed", name=name, bytes=answer["send"])["messages"], answer["events"]

    return say


def ask(say: Any, session_id: int = 0, schema_ids: tuple[str, ...] = (SCHEMA,), mode: int = 0) -> Any:
    """A request for a session."""
    return say(type="sync_request", session_id=session_id, mode=mode, schema_ids=list(schema_ids))


def test_requests_that_are_ignored_harm_nothing(talk: Any) -> None:
    say = played(talk, LOG_A)
    assert ask(say)[0][0]["type"] == "have"
    wrong = [
        ask(say),
        ask(say, 5),
        ask(say, 6, ()),
        ask(say, 7, mode=1),
        ask(say, 8, (OTHER_SCHEMA,)),
        ask(say, 9, (SCHEMA, OTHER_SCHEMA)),
    ]
    for messages, events in wrong:
        assert messages == [] and [event["kind"] for event in events] == ["ignored"]
    messages, _ = say(type="have", session_id=0, log_heights=[])
    assert [message["type"] for message in messages] == ["entry"] * 5 + ["sync_done"]


def test_late_announcements_are_ignored(talk: Any) -> None:
    say = played(talk)
    for timestamp, kind in ((5, "announced"), (5, "ignored"), (4, "ignored"), (6, "announced")):
        _, events = say(type="announce", version=1, timestamp=timestamp, schema_ids=[SCHEMA])
        assert [event["kind"] for event in events] == [kind]


@pytest.mark.parametrize("live", [True, False])
def test_an_entry_after_the_end_is_dropped(talk: Any, live: bool) -> None:
    say = played(talk)
    ask(say)
    say(type="have", session_id=0, log_heights=[])
    _, events = say(type="sync_done", session_id=0, live_mode=live)
    assert events[-1]["kind"] == ("live" if live else "session_done")
    if live:
        say(type="sync_done", session_id=0, live_mode=True)
        _, events = say(type="sync_done", session_id=0, live_mode=False)
        assert events[-1]["kind"] == "session_done"
    _, events = say(type="entry", session_id=0, **held(LOG_A)[0])
    assert [event["kind"] for event in events] == ["ignored"]


@pytest.mark.parametrize(
    ("before", "entry", "code"),
    [
        ([], FOREIGN[0], "p2panda.session.schema"),
        ([], LOG_A[1], "bamboo.backlink_unknown"),
        (LOG_A[:1], make_log(author("conform a"), 0, 1, text="fork")[0], "bamboo.fork"),
        (LOG_A[:1], make_log(author("conform a"), 0, 2, text="fork")[1], "bamboo.backlink_mismatch"),
    ],
)
def test_entries_that_are_refused(talk: Any, before: Any, entry: Any, code: str) -> None:
    say = played(talk, before)
    ask(say)
    _, events = say(type="entry", session_id=0, **held([entry])[0])
    assert [(event["kind"], event["code"]) for event in events] == [("rejected", code)]
