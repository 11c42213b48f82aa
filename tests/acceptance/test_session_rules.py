"""The rules around sessions, as a stranger sees them (replication 1, 2, "Live Mode", "Log Height Mode")."""

from __future__ import annotations

from typing import Any

import pytest

from tests.acceptance import material, wire
from tests.acceptance.peers import HIGH, LOW, NOW, CulmPeer, Lines, Link
from tests.acceptance.stranger import Stranger
from tests.acceptance.test_plain_peer import Meeting
from tests.support.p2panda.logs import OTHER_SCHEMA, SCHEMA

logs, other_logs = material.logs, material.other_logs
BOTH = (SCHEMA, OTHER_SCHEMA)


def two_schemas(**arguments: Any) -> Link:
    low = {**logs(range(20)), **other_logs(range(10, 30))}
    high = {**logs(range(10, 30)), **other_logs(range(20), 2)}
    link = Link(low, high, schema_ids=BOTH, **arguments)
    link.connect()
    return link


@pytest.mark.parametrize("mode", [2, 7, (1 << 64) - 1])
def test_a_mode_that_is_not_spoken_is_ignored(mode: int) -> None:
    culm = CulmPeer(Lines(), HIGH, logs(range(3)))
    culm.connect(LOW)
    culm.take(LOW)
    culm.receive(LOW, wire.encode([wire.SYNC_REQUEST, 0, mode, [SCHEMA]]))
    assert culm.take(LOW) == b""
    assert culm.codes() == ["p2panda.session.mode"]
    assert culm.sessions(LOW) == []


def test_mode_1_is_refused_where_it_is_switched_off_and_its_opening_passed_over() -> None:
    stranger = Stranger(logs(range(9)), lift="add128")
    meeting = Meeting(stranger, logs(range(3)), modes=[0])
    meeting.settle(stranger.request())
    assert stranger.heard == [[wire.SYNC_DONE, 0, False]]
    assert meeting.culm.codes() == ["p2panda.session.mode"]
    assert meeting.culm.count("session_started") == meeting.culm.count("session_failed") == 0
    meeting.settle(stranger.request(mode=0))
    assert stranger.is_finished and meeting.culm.held == logs(range(9))


@pytest.mark.parametrize("mode", [0, 1])
def test_a_request_outside_the_announcement_is_ignored(mode: int) -> None:
    stranger = Stranger({**logs(range(9)), **other_logs(range(5))}, BOTH, lift="add128")
    meeting = Meeting(stranger, logs(range(3)))
    for schema_ids in ([OTHER_SCHEMA], list(BOTH)):
        meeting.settle(stranger.request(0, mode, schema_ids))
        assert stranger.heard == []
        assert "p2panda.session.not_announced" in meeting.culm.codes()
        assert meeting.culm.sessions(LOW) == []
    meeting.settle(stranger.request(0, mode, [SCHEMA]))
    assert stranger.is_finished and meeting.culm.held == logs(range(9))


@pytest.mark.parametrize("session_id", [0, 5])
@pytest.mark.parametrize("second_mode", [0, 1])
def test_a_duplicate_request_is_ignored_with_its_opening(session_id: int, second_mode: int) -> None:
    """The same id, or the same schemas: the running session goes on unharmed."""
    theirs, ours = logs(range(40)), logs(range(20, 60))
    stranger, again = (Stranger(dict(theirs), lift="add128", absence=True) for _ in range(2))
    meeting = Meeting(stranger, ours)
    first = stranger.request()
    meeting.culm.receive(LOW, first)
    answer = meeting.culm.take(LOW)
    meeting.culm.receive(LOW, again.request(session_id, second_mode))
    assert meeting.culm.take(LOW) == b"", "an ignored request is answered with nothing"
    assert "p2panda.session.duplicate" in meeting.culm.codes()
    meeting.settle(stranger.hear(answer))
    assert stranger.is_finished and stranger.faults == []
    assert stranger.held == meeting.culm.held == logs(range(60))
    assert meeting.culm.count("session_failed") == 0


@pytest.mark.parametrize("modes", [(1, 1), (0, 1), (1, 0)])
def test_both_start_at_once_about_the_same(modes: tuple[int, int]) -> None:
    link = Link(logs(range(30)), logs(range(20, 50)))
    link.connect()
    link.low.sync(HIGH, modes[0])
    link.high.sync(LOW, modes[1])
    link.settle()
    link.assert_equal()
    for (peer, other), local in zip(link.sides, (False, True), strict=True):
        (session,) = peer.sessions(other.peer_id)
        assert (session["state"], session["local"]) == ("live", local), "the lower id gives way"
        assert session["mode"] == modes[1]
        assert peer.count("session_failed") == peer.count("rejected") == 0
    assert link.low.count("duplicate") == link.high.count("duplicate") == 0


@pytest.mark.parametrize("modes", [(1, 1), (0, 1), (1, 0)])
def test_both_start_at_once_with_one_id_about_different_schemas(modes: tuple[int, int]) -> None:
    link = two_schemas()
    link.low.sync(HIGH, modes[0], [SCHEMA])
    link.high.sync(LOW, modes[1], [OTHER_SCHEMA])
    link.settle()
    link.assert_equal()
    for peer, other in link.sides:
        sessions = peer.sessions(other.peer_id)
        assert sorted(session["schema_ids"][0] for session in sessions) == sorted(BOTH)
        assert len({session["session_id"] for session in sessions}) == 2
        assert [session["state"] for session in sessions] == ["live", "live"]


@pytest.mark.parametrize("modes", [(1, 1), (0, 1), (1, 0)])
def test_several_sessions_run_at_a_time(modes: tuple[int, int]) -> None:
    link = two_schemas()
    link.low.sync(HIGH, modes[0], [SCHEMA])
    link.low.sync(HIGH, modes[1], [OTHER_SCHEMA])
    link.settle()
    link.assert_equal()
    for peer, other in link.sides:
        sessions = peer.sessions(other.peer_id)
        assert [(each["session_id"], each["state"]) for each in sessions] == [(0, "live"), (1, "live")]
        assert peer.count("duplicate") == 0


def test_messages_of_two_sessions_may_alternate() -> None:
    link = two_schemas(live_mode=False)
    link.low.sync(HIGH, 1, [SCHEMA])
    link.low.sync(HIGH, 1, [OTHER_SCHEMA])
    queues: dict[str, list[wire.Array]] = {}
    for _ in range(2_000):
        for peer, other in link.sides:
            waiting = queues.setdefault(peer.peer_id, [])
            waiting += wire.decode(peer.take(other.peer_id))
            # By turns of one message a session, each session in its own order.
            ids = [message[1] for message in waiting]
            if ids:
                index = max(range(len(ids)), key=lambda at, ids=ids: (ids.index(ids[at]) == at, at))  # type: ignore[misc]
                other.receive(peer.peer_id, wire.encode(waiting.pop(index)))
    assert not any(queues.values())
    link.assert_equal()
    assert link.low.count("session_done") == link.high.count("session_done") == 2


def test_session_ids_start_again_after_idleness() -> None:
    link = Link(logs(range(5)), logs(range(3)), live_mode=False)
    link.connect()
    ids = []
    for wait_ms in (0, 10, 3_600_000):
        for peer, _other in link.sides:
            peer.later(wait_ms)
        link.said.clear()
        link.low.sync(HIGH)
        link.settle()
        ids += [message[1] for message in link.of(wire.SYNC_REQUEST)]
    assert ids == [0, 1, 0]
    link.assert_equal()


def test_live_mode_is_closed_and_opened_again() -> None:
    link = Link(logs(range(5)), logs(range(3, 9)))
    link.connect()
    link.low.sync(HIGH)
    link.settle()
    link.low.do("stop_live", HIGH, session_id=0)
    link.settle()
    assert link.low.sessions(HIGH) == link.high.sessions(LOW) == []
    assert link.of(wire.SYNC_DONE)[-1] == [wire.SYNC_DONE, 0, False]
    link.high.publish(material.log(8), 2)
    link.settle()
    assert link.low.held[material.log(8)] == 1, "nothing flows without a session"
    link.high.sync(LOW)
    link.settle()
    assert link.low.held[material.log(8)] == 2
    link.low.publish(material.log(0), 2)
    link.settle()
    assert link.high.held[material.log(0)] == 2
    assert [each["state"] for each in link.low.sessions(HIGH)] == ["live"]


@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize("at", range(1, 40))
def test_what_is_published_while_a_session_catches_up_is_not_lost(mode: int, at: int) -> None:
    """After any message of the session, on either side."""
    link = Link(logs(range(12)), logs(range(6, 18)))
    link.connect()
    link.low.sync(HIGH, mode)
    _publish_at(link, at)
    link.settle()
    wanted = {**link.wanted, material.log(0): 2, material.log(17): 2}
    assert link.low.held == link.high.held == wanted


def _publish_at(link: Link, at: int) -> None:
    """Deliver message by message, none lost, and publish on both sides after ``at`` of them."""
    delivered = 0
    queues: dict[str, bytes] = {}
    while delivered < at:
        moved = False
        for peer, other in link.sides:
            data = queues.get(peer.peer_id, b"") + peer.take(other.peer_id)
            if data:
                end = wire.boundaries(data)[0]
                other.receive(peer.peer_id, data[:end])
                queues[peer.peer_id] = data[end:]
                delivered, moved = delivered + 1, True
        if not moved:
            break
    link.low.publish(material.log(0), 2)
    link.high.publish(material.log(17), 2)
    for peer, other in link.sides:
        peer.waiting[other.peer_id] = queues.get(peer.peer_id, b"") + peer.take(other.peer_id)


@pytest.mark.parametrize("mode", [0, 1])
def test_a_peer_that_vanishes_costs_its_session_and_the_next_repairs(mode: int) -> None:
    link = Link(logs(range(20)), logs(range(10, 30)))
    link.connect()
    link.low.sync(HIGH, mode)
    link.settle(most_messages=6)
    link.low.take(HIGH)
    link.high.take(LOW)
    for peer, other in link.sides:
        peer.later(60_000)
        peer.take(other.peer_id)
        assert "p2panda.session.timeout" in peer.codes()
        assert peer.sessions(other.peer_id) == []
    link.cut()
    link.connect()
    link.high.sync(LOW, mode)
    link.settle()
    link.assert_equal()


@pytest.mark.parametrize("mode", [0, 1])
def test_an_interest_that_is_taken_back_while_a_session_runs_ends_it_in_order(mode: int) -> None:
    link = two_schemas()
    link.low.sync(HIGH, mode, BOTH)
    link.high.receive(LOW, link.low.take(HIGH))
    link.high.do("announce", schema_ids=[SCHEMA])
    link.settle()
    assert link.low.sessions(HIGH) == link.high.sessions(LOW) == []
    assert link.low.count("session_failed") == link.high.count("session_failed") == 0
    link.low.sync(HIGH, mode, [SCHEMA])
    link.settle()
    wanted = material.about(link.wanted, [SCHEMA])
    assert material.lacking(link.low.held, wanted) == material.lacking(link.high.held, wanted) == 0


def test_a_late_announcement_changes_nothing() -> None:
    culm = CulmPeer(Lines(), HIGH, {})
    culm.connect(LOW)
    for timestamp, schema_ids in ((NOW, [SCHEMA]), (NOW - 1, []), (NOW, [OTHER_SCHEMA])):
        culm.receive(LOW, wire.encode([wire.ANNOUNCE, 1, timestamp, schema_ids]))
    assert culm.state()["announcements"][LOW]["schema_ids"] == [SCHEMA]
    assert culm.codes() == ["p2panda.announcement.late"] * 2


@pytest.mark.parametrize("asks", [0, 1])
def test_a_have_that_fits_no_message_is_never_cut_short(asks: int) -> None:
    """Either the session goes on in mode 1, or by parts: in the end nothing is missing."""
    small = {"max_message_bytes": 3_000}
    link = Link(logs(range(100)), logs(range(60, 160)), settings=small)
    link.connect()
    peer, other = link.sides[asks]
    peer.sync(other.peer_id, 0)
    link.settle()
    for _ in range(6):
        for each, _other in link.sides:
            each.later(10_000)
        link.settle()
    link.assert_equal()
