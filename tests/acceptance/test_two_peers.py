"""Two Culm peers in mode 1: every entry once, an end, and no more said than is needed (replication 2)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.acceptance import material, wire
from tests.acceptance.material import Holding
from tests.acceptance.peers import HIGH, LOW, Link

logs = material.logs
SIZES = (0, 1, 5, 8, 9, 100)


def relation(name: str, size: int) -> tuple[Holding, Holding]:
    """Two holdings of about ``size`` logs."""
    low = logs(range(size))
    high = {
        "identical": logs(range(size)),
        "disjoint": logs(range(size, 2 * size)),
        "nested": logs(range(size // 3)),
        "grown": {material.log(number): 1 + number % 3 for number in range(size)},
        "grown both ways": {material.log(number): 1 + number % 3 for number in range(size)},
        "all of it": {
            **{material.log(number): 1 + number % 2 for number in range(size // 2, size)},
            **logs(range(size, size + size // 2), 2),
        },
    }[name]
    if name == "grown both ways":
        low = {material.log(number): 3 - number % 3 for number in range(size)}
    return low, high


RELATIONS = ("identical", "disjoint", "nested", "grown", "grown both ways", "all of it")


def check(link: Link, *, live: bool) -> None:
    link.assert_equal()
    for (peer, other), holding in zip(link.sides, link.held_at_start, strict=True):
        assert peer.count("entry_accepted") == material.count(link.wanted) - material.count(holding)
        assert peer.count("rejected") == peer.count("session_failed") == 0
        assert peer.count("session_started") == 1
        assert peer.count("live" if live else "session_done") == 1
        states = [session["state"] for session in peer.sessions(other.peer_id)]
        assert states == (["live"] if live else [])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", RELATIONS)
@pytest.mark.parametrize("live", [True, False])
def test_both_get_what_they_lack(name: str, size: int, live: bool) -> None:
    link = Link(*relation(name, size), live_mode=live)
    link.connect()
    link.low.sync(HIGH)
    link.settle()
    check(link, live=live)


@pytest.mark.parametrize("name", RELATIONS)
def test_a_thousand_logs(name: str) -> None:
    link = Link(*relation(name, 1_000))
    link.connect()
    link.high.sync(LOW)
    link.settle()
    check(link, live=True)


@pytest.mark.parametrize("name", RELATIONS)
def test_an_entry_is_sent_once_when_both_are_culm(name: str) -> None:
    link = Link(*relation(name, 100))
    link.connect()
    link.low.sync(HIGH)
    link.settle()
    assert link.low.count("duplicate") == link.high.count("duplicate") == 0


def test_equal_sets_say_little() -> None:
    link = Link(*relation("identical", 1_000))
    link.connect()
    before = len(link.said)
    link.low.sync(HIGH)
    link.settle()
    assert len(link.said) - before <= 30
    assert link.of(wire.ENTRY) == link.of(wire.PAYLOAD) == []


def test_the_request_comes_first_and_the_opening_right_behind_it() -> None:
    link = Link(*relation("all of it", 20))
    link.connect()
    link.low.sync(HIGH)
    messages = wire.decode(link.low.take(HIGH))
    assert messages[0][:3] == [wire.SYNC_REQUEST, 0, 1]
    assert messages[1][0] == wire.LOWER_BOUND and messages[-1] == [wire.TERMINAL, 0]


def test_entries_flow_before_reconciliation_has_ended() -> None:
    link = Link(*relation("all of it", 100))
    link.connect()
    link.low.sync(HIGH)
    link.settle()
    kinds = [message[0] for _, message in link.said]
    last = max(index for index, kind in enumerate(kinds) if kind in wire.NAMES)
    assert wire.ENTRY in kinds[:last], "all entries waited for the end of the reconciliation"
    for peer_id in (LOW, HIGH):
        own = [message[0] for sender, message in link.said if sender == peer_id]
        assert own[-1] == wire.SYNC_DONE and own.count(wire.SYNC_DONE) == 1


def test_after_the_end_an_echo_is_not_answered() -> None:
    link = Link(*relation("all of it", 9), live_mode=False)
    link.connect()
    link.low.sync(HIGH)
    link.settle()
    last = [message for _, message in link.said if message[0] in wire.NAMES][-3:]
    for peer, other in link.sides:
        peer.receive(other.peer_id, wire.encode(*last))
        assert peer.take(other.peer_id) == b""
        assert peer.count("link_failed") == 0


@pytest.mark.parametrize("kind", [wire.TERMINAL, wire.LOWER_BOUND, wire.DONE])
def test_in_live_mode_an_echo_is_not_answered(kind: int) -> None:
    link = Link(*relation("disjoint", 9))
    link.connect()
    link.low.sync(HIGH)
    link.settle()
    bound = ["ab" * 32, 0, 0]
    echo = [kind, 0] if kind == wire.TERMINAL else [kind, 0, bound]
    link.low.receive(HIGH, wire.encode(echo))
    assert link.low.take(HIGH) == b""
    link.high.publish(material.log(9), 2)
    link.settle()
    assert link.low.held[material.log(9)] == 2


@pytest.mark.parametrize("settings", [{}, {"announce_offers": True}])
def test_announcements_name_schemas_alone_to_whoever_reads_events(settings: dict[str, Any]) -> None:
    link = Link(*relation("all of it", 30), settings=settings)
    link.connect()
    link.low.sync(HIGH)
    link.settle()
    link.assert_equal()
    for peer, other in link.sides:
        (announced,) = [event for event in peer.events if event["kind"] == "announced"]
        assert len(announced["schema_ids"]) == 1
        assert len(peer.state()["announcements"][other.peer_id]["schema_ids"]) == 1
    lengths = [len(message[3]) for message in link.of(wire.ANNOUNCE)]
    assert lengths == [2, 2] if settings else lengths == [1, 1]


def test_the_compact_form_is_shorter() -> None:
    sizes = []
    for offers in (False, True):
        link = Link(*relation("grown", 1_000), settings={"announce_offers": offers})
        link.connect()
        link.low.sync(HIGH)
        link.settle()
        link.assert_equal()
        sizes.append(sum(len(wire.encode(m)) for _, m in link.said if wire.is_reconciliation(m)))
    assert sizes[1] < 0.7 * sizes[0]
