"""One message id with two contents is told, once, and the first message counts."""

from __future__ import annotations

import pytest

from culm_models.sds.events import Lost, Missing, Rejected, SdsEvent
from tests.models.sds.channels_for_tests import NOW, Peer, kinds, made


def disputes(events: list[SdsEvent]) -> list[str]:
    return [
        event.message_id
        for event in events
        if isinstance(event, Rejected) and event.code == "sds.message_id.disputed"
    ]


@pytest.mark.parametrize("other", [{"content": b"two"}, {"sender": "mallory"}])
def test_a_second_content_or_sender_under_one_id_is_told_once(other: dict[str, str | bytes]) -> None:
    peer = Peer("ann")
    peer.receive(made("m1", content=b"one"))
    for _ in range(3):
        peer.receive(made("m1", **{"content": b"one", **other}))  # type: ignore[arg-type]
    assert disputes(peer.events) == ["m1"]
    assert peer.delivered == ["m1"]


def test_a_copy_and_one_with_another_timestamp_are_no_second_content() -> None:
    peer = Peer("ann")
    peer.receive(made("m1", content=b"one"))
    peer.receive(made("m1", content=b"one"))
    peer.receive(made("m1", content=b"one", lamport=NOW + 5))
    assert not disputes(peer.events)


def test_also_of_a_message_that_waits_and_before_it_is_delivered() -> None:
    peer = Peer("ann")
    peer.receive(made("m2", "m1", content=b"one"))
    peer.receive(made("m2", "m1", content=b"two"))
    peer.receive(made("m1"))
    peer.receive(made("m2", "m1", content=b"three"))
    assert disputes(peer.events) == ["m2"]
    assert peer.delivered == ["m1", "m2"]


def test_what_disputes_an_id_acknowledges_nothing() -> None:
    peer = Peer("ann")
    sent = peer.send(b"mine")
    peer.receive(made("m1", content=b"one"))
    (own,) = [message_id for message_id in peer.log_ids if message_id != "m1"]
    peer.receive(made("m1", own, content=b"two"))
    assert sent and len(peer.channel.status().outgoing) == 1


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("waits", [True, False])
def test_it_is_told_once_over_a_restart_too(waits: bool, whole: bool) -> None:
    parents = ("m0",) if waits else ()
    peer = Peer("ann")
    peer.receive(made("m1", *parents, content=b"one"))
    again = peer.restarted(whole=whole)
    again.receive(made("m1", *parents, content=b"two"))
    last = again.restarted(whole=whole) if whole else again
    last.receive(made("m1", *parents, content=b"three"))
    assert disputes(last.events) == ["m1"]


# Messages in quarantine are known: nobody looks for them, and afterwards they are as any other.


HOUR_MS = 3_600_000
AHEAD = NOW + 3 * HOUR_MS
TAKEN_MS = AHEAD - HOUR_MS


def run_until(peer: Peer, end_ms: int) -> None:
    """Tick the peer whenever something is due."""
    while (due_ms := peer.channel.next_due_ms()) is not None and due_ms <= end_ms:
        peer.tick(due_ms)


def looked_for(peer: Peer) -> set[str]:
    return {
        entry.message_id for event in peer.events if isinstance(event, Missing) for entry in event.entries
    }


def test_what_names_a_quarantined_message_does_not_make_it_missing() -> None:
    bob = Peer("bob")
    bob.receive(made("far", lamport=AHEAD))
    assert kinds(bob.receive(made("near", "far"))) == ["received"]
    assert kinds(bob.receive(made("sync", "far", content=None, sender="carol"))) == ["sync_received"]
    assert bob.did(bob.channel.compare_head([(AHEAD, "far")], NOW)).events == ()
    run_until(bob, TAKEN_MS + HOUR_MS)
    assert looked_for(bob) == set()
    assert not any(isinstance(event, Lost) for event in bob.events)


def test_a_message_that_waits_for_a_quarantined_one_is_delivered_behind_it() -> None:
    bob = Peer("bob")
    bob.receive(made("far", lamport=AHEAD))
    bob.receive(made("near", "far"))
    run_until(bob, TAKEN_MS - 1)
    assert bob.delivered == []
    run_until(bob, TAKEN_MS)
    assert bob.delivered == ["far", "near"]


def test_a_missing_message_that_comes_into_the_quarantine_is_fetched_no_more() -> None:
    bob = Peer("bob")
    assert bob.receive(made("near", "far")).fetch
    bob.receive(made("far", lamport=AHEAD))
    assert bob.channel.status().missing == ()
    copy = bob.restarted(whole=True)
    assert copy.channel.status() == bob.channel.status()
    run_until(bob, TAKEN_MS)
    assert not any(isinstance(event, Lost) for event in bob.events)
    assert bob.delivered == ["far", "near"]


def test_a_released_message_answers_repair_requests_and_a_quarantined_one_does_not() -> None:
    bob = Peer("bob")
    wire = made("far", lamport=AHEAD)
    bob.receive(wire)
    bob.receive(made("early", asks=["far"], sender="carol"))
    assert bob.tick(NOW + 10 * 60_000, "repair").send == ()
    bob.tick(TAKEN_MS)
    bob.receive(made("late", asks=["far"], sender="carol"), TAKEN_MS)
    sent = [
        outbound.wire
        for outbound in bob.tick(TAKEN_MS + 10 * 60_000, "repair").send
        if outbound.kind == "repair"
    ]
    assert sent == [wire]
