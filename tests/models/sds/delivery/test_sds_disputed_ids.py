"""One message id with two contents is told, once, and the first message counts."""

from __future__ import annotations

import pytest

from culm_models.sds.events import Event, Rejected
from tests.models.sds.channels_for_tests import NOW, Peer, made


def disputes(events: list[Event]) -> list[str]:
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
