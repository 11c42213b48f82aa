"""The wall clock jumps, and the timers do not: what is still sent, what is refused, how it is undone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from culm_models.sds.errors import ClockAheadError
from culm_models.sds.events import ClockAhead, GaveUp, Outbound, Withdrawn
from culm_models.sds.wire.codec import decode
from culm_models.sds.wire.messages import Profile
from tests.models.sds.channels_for_tests import NOW, Peer, kinds, made, read

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def stepped(peer: Peer, now_ms: int, by_ms: int) -> list[str]:
    """The peer's clock is changed at a time of its timers; the kinds of the events."""
    return kinds(peer.did(peer.channel.set_clock(now_ms, now_ms + by_ms)))


def once_wrong(by_ms: int, profile: Profile = "spec") -> tuple[Peer, str]:
    """A peer that has sent one message while its clock was ahead, and that message's id."""
    alice = Peer("alice", profile)
    alice.send(b"sound")
    stepped(alice, NOW + 1_000, by_ms)
    alice.send(b"from the future", NOW + 1_000, message_id="future")
    return alice, "future"


@pytest.mark.parametrize("by_ms", [-2 * DAY_MS, -HOUR_MS, HOUR_MS, 2 * DAY_MS])
def test_a_step_of_the_clock_moves_no_timer(by_ms: int) -> None:
    alice = Peer("alice")
    alice.receive(made("child", "parent"))
    alice.send()
    due_ms = alice.channel.next_due_ms()
    stepped(alice, NOW, by_ms)
    assert alice.channel.next_due_ms() == due_ms
    alice.tick(NOW + 29_999)
    assert [outbound.kind for outbound in alice.tick(NOW + 30_000, "outgoing").send] == ["retry"]
    assert "lost" not in [event.kind for event in alice.events]


@pytest.mark.parametrize("by_ms", [90 * 60_000, 2 * DAY_MS])
@pytest.mark.parametrize("profile", ["spec", "js", "nim"])
def test_who_sent_with_a_clock_that_was_ahead_is_told_and_sends_nothing_that_others_refuse(
    profile: Profile, by_ms: int
) -> None:
    alice, _ = once_wrong(by_ms, profile)
    assert stepped(alice, NOW + 2_000, 0) == ["clock_ahead"]
    assert any(isinstance(event, ClockAhead) and event.ahead_ms > HOUR_MS for event in alice.events)
    before = alice.channel.status()
    with pytest.raises(ClockAheadError):
        alice.send(b"more", NOW + 2_000)
    assert alice.channel.status() == before
    assert kinds(alice.tick(NOW + 31_000, "outgoing")) == []


def test_an_hour_is_allowed() -> None:
    alice, _ = once_wrong(HOUR_MS)
    assert stepped(alice, NOW + 2_000, 0) == []
    bob = Peer("bob")
    wire = alice.send(b"more", NOW + 2_000)
    assert read(wire).lamport_timestamp == NOW + HOUR_MS + 1_001
    assert "rejected" not in kinds(bob.receive(wire, NOW + 2_000))


def test_sending_goes_on_when_the_time_has_come() -> None:
    alice, _ = once_wrong(90 * 60_000)
    stepped(alice, NOW + 2_000, 0)
    alice.send(b"more", NOW + 31 * 60_000)


@pytest.mark.parametrize("by_ms", [90 * 60_000, 2 * DAY_MS])
def test_what_was_sent_with_a_wrong_clock_is_withdrawn_and_others_take_what_follows(by_ms: int) -> None:
    alice, future = once_wrong(by_ms)
    stepped(alice, NOW + 2_000, 0)
    output = alice.did(alice.channel.withdraw_ahead(NOW + 2_000))
    assert [type(event) for event in output.events] == [Withdrawn, GaveUp]
    bob = Peer("bob")
    for now_ms in (NOW + 2_000, NOW + 3_000):
        wire = alice.send(b"more", now_ms)
        assert future not in [entry.message_id for entry in read(wire).causal_history]
        bob.receive(wire, now_ms)
    assert len(alice.log) == 3
    assert alice.log[-1][0] == NOW + 3_000
    for whole in (True, False):
        copy = alice.restarted(whole=whole)
        copy.channel.set_clock(NOW + 3_000, NOW + 3_000)
        assert copy.channel.status() == alice.channel.status()


def test_what_others_had_put_aside_comes_back_when_its_time_has_come() -> None:
    alice = Peer("alice")
    stepped(alice, NOW, 2 * HOUR_MS)
    bob = Peer("bob")
    bob.receive(alice.send(b"future", message_id="future"))
    stepped(alice, NOW, 0)
    alice.channel.withdraw_ahead(NOW)
    taken_ms = NOW + HOUR_MS
    bob.tick(taken_ms)
    alice.receive(bob.send(b"child", taken_ms), taken_ms + 10)
    wire = bob.channel.wire("future")
    assert wire is not None
    alice.receive(wire, taken_ms + 10)
    assert alice.log_ids == bob.log_ids


def test_only_a_clock_that_is_behind_makes_received_messages_late() -> None:
    bob = Peer("bob")
    stepped(bob, NOW, -2 * DAY_MS)
    wire = made("m1")
    assert kinds(bob.receive(wire)) == ["rejected"]
    assert bob.channel.status().quarantined == ()
    stepped(bob, NOW, 0)
    assert kinds(bob.receive(wire)) == ["received", "delivered"]


def test_the_quarantine_goes_by_the_clock() -> None:
    bob = Peer("bob")
    bob.receive(made("m1", lamport=NOW + 2 * HOUR_MS))
    assert bob.channel.next_due_ms() == NOW + HOUR_MS
    stepped(bob, NOW + 1_000, 30 * 60_000)
    assert bob.channel.next_due_ms() == NOW + 30 * 60_000
    assert kinds(bob.tick(NOW + 30 * 60_000, "incoming")) == ["received", "delivered"]


def test_a_sync_that_was_sent_with_a_wrong_clock_mutes_nobody() -> None:
    alice = Peer("alice")
    alice.send()
    stepped(alice, NOW, 2 * DAY_MS)
    assert "sync_sent" in kinds(alice.tick(NOW + 60_000, "sync"))
    assert stepped(alice, NOW + 61_000, 0) == []
    assert read(alice.send(b"more", NOW + 61_000)).lamport_timestamp == NOW + 61_000


def test_strangers_at_the_allowance_stop_nobody_from_sending() -> None:
    for profile, unit_ms in (("spec", 1), ("nim", 1_000)):
        alice = Peer("alice", profile)  # type: ignore[arg-type]
        edge = (NOW + HOUR_MS) // unit_ms
        for number in range(200):
            alice.receive(made(f"m{number:03}", lamport=edge, profile=profile))  # type: ignore[arg-type]
        alice.send()


# A channel comes to rest: whatever was received, it does not go on speaking for nothing.


MINUTE_MS = 60_000


def spoken(peer: Peer, until_ms: int, *, steps: int = 300) -> Iterator[tuple[int, Outbound]]:
    """What a peer that is left alone says until a time, and when."""
    now_ms = NOW
    for _ in range(steps):
        due_ms = peer.channel.next_due_ms()
        if due_ms is None or due_ms > until_ms:
            return
        now_ms = max(now_ms, due_ms)
        for outbound in peer.tick(now_ms).send:
            yield now_ms, outbound
    pytest.fail("it has always something to do")


@pytest.mark.parametrize("changed", [{"repair_requests": False}, {"repair_max_requests": 0}])
def test_who_asks_nobody_for_missing_messages_does_not_wake_for_it(changed: dict[str, Any]) -> None:
    sender, receiver = Peer("sender"), Peer("receiver", **changed)
    receiver.receive(sender.send(b"first"))
    sender.send(b"second")
    receiver.receive(sender.send(b"third"))
    kinds = [outbound.kind for _, outbound in spoken(receiver, NOW + 50 * MINUTE_MS)]
    assert kinds == ["sync"] * 3


def test_a_repeated_message_that_waits_is_not_answered_for_ever() -> None:
    sender, receiver = Peer("sender"), Peer("receiver")
    receiver.receive(sender.send(b"first"))
    sender.send(b"second")
    third = sender.send(b"third")
    receiver.receive(third)
    receiver.receive(third, NOW + 30_000)
    late = [
        outbound
        for time_ms, outbound in spoken(receiver, NOW + 50 * MINUTE_MS)
        if time_ms > NOW + 20 * MINUTE_MS
    ]
    # Only for what is missing it goes on asking.
    assert all(decode(outbound.wire, "spec").repair_request for outbound in late)


def test_a_copy_that_comes_at_once_is_not_taken_for_a_re_send() -> None:
    sender, receiver = Peer("sender"), Peer("receiver")
    wire = sender.send()
    receiver.receive(wire)
    due_ms = receiver.channel.next_due_ms()
    receiver.receive(wire, NOW + 50)
    assert receiver.channel.next_due_ms() == due_ms


def test_a_re_send_is_answered_early_by_a_sync_that_names_it() -> None:
    sender, receiver = Peer("sender"), Peer("receiver", causal_history_size=1)
    wires = [sender.send(content) for content in (b"first", b"second", b"third")]
    for wire in wires:
        receiver.receive(wire)
    times_ms = [time_ms for time_ms, outbound in spoken(receiver, NOW + 20 * MINUTE_MS)]
    assert len(times_ms) == 3
    again_ms = times_ms[-1] + 10 * MINUTE_MS
    receiver.receive(wires[0], again_ms)
    due_ms = receiver.channel.next_due_ms()
    assert due_ms is not None
    assert due_ms < again_ms + 7_500
    (sync,) = receiver.tick(due_ms).send
    named = [entry.message_id for entry in decode(sync.wire, "spec").causal_history]
    assert named == [decode(wires[0], "spec").message_id, decode(wires[2], "spec").message_id]
    assert sender.receive(sync.wire, due_ms).events


def test_the_answer_of_another_to_a_repair_request_is_no_re_send() -> None:
    sender, asking, receiver = Peer("sender"), Peer("asking"), Peer("receiver")
    first = sender.send(b"first")
    asking.receive(sender.send(b"second"))
    receiver.receive(first)
    asked_ms = NOW + 10 * MINUTE_MS
    (request,) = [outbound for _, outbound in spoken(asking, NOW + 3 * MINUTE_MS) if outbound.kind == "sync"][
        :1
    ]
    receiver.receive(request.wire, asked_ms)
    before = receiver.channel._parts.schedule.names()
    receiver.receive(first, asked_ms + 10)
    assert receiver.channel._parts.schedule.names() == before
