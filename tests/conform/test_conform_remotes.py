"""One peer behind lines, opposite remotes that the test plays."""

from __future__ import annotations

from typing import Any

import pytest

from culm_models.bamboo import sign_entry
from culm_models.p2panda.operations.operation import CheckedOperation, check_entry, encode_operation
from tests.support.logs import OTHER_SCHEMA, SCHEMA, author, make_log

NOW = 1_700_000_000_000
LOG_A = make_log(author("conform a"), 0, 5)
LOG_B = make_log(author("conform b"), 2, 9, schema_id=SCHEMA)
FOREIGN = make_log(author("conform c"), 0, 1, schema_id=OTHER_SCHEMA)


def next_entry(log: Any, log_id: int, *, previous: Any = None, end_of_log: bool = False) -> CheckedOperation:
    """The second author's entry after `log`, an update of `previous`."""
    operation = encode_operation("update", SCHEMA, previous=((previous or log[-1]).hash,), fields={})
    backlink = log[-1].hash if log else None
    signed = sign_entry(
        author("conform b"), log_id, len(log) + 1, operation, backlink=backlink, end_of_log=end_of_log
    )
    return check_entry(signed, operation)


ENDED = LOG_B[:1]
ENDED = [*ENDED, next_entry(ENDED, 2, end_of_log=True)]
ENDED = [*ENDED, next_entry(ENDED, 2)]


def read(talk: Any, data: str) -> list[dict[str, Any]]:
    """The messages in these bytes."""
    name = f"read {data}"
    talk.ok("p2panda.stream.open", name=name)
    found: list[dict[str, Any]] = talk.ok("p2panda.stream.feed", name=name, bytes=data)["messages"]
    talk.ok("p2panda.stream.close", name=name)
    return found


def played(talk: Any, log: Any = ()) -> Any:
    """A peer with links to two remotes, and a function that says messages of one of them to it."""
    talk.ok("p2panda.peer.open", name="p", peer_id="09", schema_ids=[SCHEMA], entries=talk.held(log), now=NOW)
    for remote in ("01", "02"):
        talk.ok("p2panda.peer.connect", name="p", remote_peer_id=remote, now=NOW)

    def say(remote: str = "01", **message: Any) -> tuple[list[Any], list[Any]]:
        data = talk.ok("p2panda.message.encode", message=message)["bytes"]
        answer = talk.ok("p2panda.peer.receive", name="p", remote_peer_id=remote, bytes=data, now=NOW)
        return read(talk, answer["send"]), answer["events"]

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
    _, events = say(type="entry", session_id=0, **talk.held(LOG_A)[0])
    assert [event["kind"] for event in events] == ["ignored"]


@pytest.mark.parametrize(
    ("before", "entry", "code"),
    [
        ([], FOREIGN[0], "p2panda.session.schema"),
        ([], LOG_A[1], "bamboo.backlink_unknown"),
        (LOG_A[:1], make_log(author("conform a"), 0, 1, text="fork")[0], "bamboo.fork"),
        (LOG_A[:1], make_log(author("conform a"), 0, 2, text="fork")[1], "bamboo.backlink_mismatch"),
        (LOG_B[:1], next_entry([], 1, previous=LOG_B[0]), "bamboo.log_id"),
        (ENDED[:2], ENDED[2], "bamboo.after_end_of_log"),
    ],
)
def test_entries_that_are_refused(talk: Any, before: Any, entry: Any, code: str) -> None:
    say = played(talk, before)
    ask(say)
    _, events = say(type="entry", session_id=0, **talk.held([entry])[0])
    assert [(event["kind"], event["code"]) for event in events] == [("rejected", code)]


def test_an_entry_that_is_held_is_a_duplicate(talk: Any) -> None:
    say = played(talk, ENDED[:2])
    ask(say)
    for entry in talk.held(ENDED[:2]):
        _, events = say(type="entry", session_id=0, **entry)
        assert [event["kind"] for event in events] == ["duplicate", "heights"]


def test_what_a_remote_brought_before_its_have_is_not_sent_back(talk: Any) -> None:
    say = played(talk, LOG_B)
    ask(say)
    for entry in talk.held(LOG_A):
        assert say(type="entry", session_id=0, **entry)[1][0]["kind"] == "entry_accepted"
    messages, _ = say(type="have", session_id=0, log_heights=[])
    assert [message.get("entry") for message in messages] == [e["entry"] for e in talk.held(LOG_B)] + [None]


def test_entries_are_held_in_whatever_order_they_are_given(talk: Any) -> None:
    say = played(talk, [*reversed(LOG_A), *LOG_B[4:], *LOG_B[:5]])
    ask(say)
    messages, _ = say(type="have", session_id=0, log_heights=[])
    assert [message["type"] for message in messages] == ["entry"] * 14 + ["sync_done"]


def test_a_mode_that_is_not_there_is_refused_even_if_wanted(talk: Any) -> None:
    opened = {"name": "p", "peer_id": "09", "schema_ids": [SCHEMA], "now": NOW}
    talk.ok("p2panda.peer.open", **opened, modes=[0, 2])
    talk.ok("p2panda.peer.connect", name="p", remote_peer_id="01", now=NOW)
    answer = talk.ok("p2panda.peer.sync", name="p", remote_peer_id="01", mode=2, schema_ids=[SCHEMA], now=NOW)
    assert answer["send"] == ""
    assert [event["code"] for event in answer["events"]] == ["p2panda.session.mode"]


@pytest.mark.parametrize("connected", [True, False])
def test_bytes_that_cannot_belong_to_a_link_are_ignored(talk: Any, connected: bool) -> None:
    played(talk)
    remote = "01" if connected else "77"
    said = {"name": "p", "remote_peer_id": remote, "bytes": "ff", "now": NOW}
    if connected:
        assert talk.ok("p2panda.peer.receive", **said)["events"][0]["kind"] == "link_failed"
    answer = talk.ok("p2panda.peer.receive", **said)
    assert answer["send"] == ""
    assert [(event["kind"], event["code"]) for event in answer["events"]] == [
        ("ignored", "p2panda.session.not_connected")
    ]


def test_what_one_remote_brings_goes_to_the_others_with_the_next_tick(talk: Any) -> None:
    say = played(talk)
    for remote in ("01", "02"):
        say(remote, type="sync_request", session_id=0, mode=0, schema_ids=[SCHEMA])
        say(remote, type="have", session_id=0, log_heights=[])
        say(remote, type="sync_done", session_id=0, live_mode=True)
    entry = {"type": "entry", "session_id": 0, **talk.held(LOG_A)[0]}
    assert say("01", **entry)[0] == []
    (sent,) = talk.ok("p2panda.peer.tick", name="p", now=NOW)["send"]
    assert sent["to"] == "02" and read(talk, sent["bytes"]) == [entry]


def test_a_session_in_which_nothing_happens_fails_by_a_tick(talk: Any) -> None:
    say = played(talk)
    ask(say)
    assert talk.ok("p2panda.peer.tick", name="p", now=NOW + 59_999) == {"send": [], "events": []}
    answer = talk.ok("p2panda.peer.tick", name="p", now=NOW + 60_000)
    assert [(event["kind"], event["code"]) for event in answer["events"]] == [
        ("session_failed", "p2panda.session.timeout")
    ]
    assert talk.ok("p2panda.peer.state", name="p")["sessions"] == []
