"""Many participants hosted in one channel: one log for all, and each heard by the others."""

from __future__ import annotations

from typing import Any

import pytest

from culm_models.sds.channel import Channel
from culm_models.sds.errors import ParticipantError, SdsError
from culm_models.sds.events import Acknowledged, Delivered, GaveUp, PossiblyAcknowledged, Sent, SyncSent
from tests.models.sds.channels_for_tests import CHANNEL, NOW, Peer, kinds, made, read, settings_of


def hosting(*names: str, **changed: Any) -> Channel:
    channel = Channel(CHANNEL, "spec", settings_of(**changed), now_ms=NOW, seed=b"seed")
    for name in names:
        assert channel.join(name, NOW).events == ()
    return channel


def test_a_participant_joins_once_and_is_known() -> None:
    channel = hosting("alice", "amy")
    assert channel.participants == ("alice", "amy")
    for name in ("alice", "", "\ud800", "x" * 5_000):
        with pytest.raises(SdsError):
            channel.join(name, NOW)


def test_hosted_participants_are_bounded() -> None:
    channel = hosting("alice", "amy", max_participants=2)
    with pytest.raises(ParticipantError):
        channel.join("ann", NOW)


def test_who_is_not_hosted_neither_sends_nor_leaves() -> None:
    channel = hosting("alice")
    with pytest.raises(ParticipantError):
        channel.leave("amy", NOW)
    with pytest.raises(ParticipantError):
        channel.send("amy", b"x", NOW)


def test_a_message_of_one_is_delivered_to_the_channel_once() -> None:
    channel = hosting("alice", "amy", "ann")
    output = channel.send("alice", b"hello", NOW)
    sent, delivered = output.events
    assert isinstance(sent, Sent) and isinstance(delivered, Delivered)
    assert (delivered.participant_id, delivered.sender_id, delivered.position) == (None, "alice", 0)
    assert delivered.content == b"hello"
    assert len(output.send) == 1


def test_a_lone_participant_is_not_told_of_its_own_message_again() -> None:
    assert kinds(hosting("alice").send("alice", b"hello", NOW)) == ["sent"]


def test_an_ephemeral_message_of_one_reaches_the_others() -> None:
    channel = hosting("alice", "amy")
    output = channel.send("alice", b"typing", NOW, ephemeral=True)
    assert kinds(output) == ["sent", "delivered"]
    event = output.events[1]
    assert isinstance(event, Delivered) and event.ephemeral and event.position is None


def test_what_a_sibling_sends_acknowledges_as_what_anyone_sends() -> None:
    channel = hosting("alice", "amy")
    channel.send("alice", b"one", NOW, message_id="m1")
    output = channel.send("amy", b"two", NOW)
    assert [event for event in output.events if isinstance(event, Acknowledged)] == [
        Acknowledged("m1", "alice", "causal_history", ("amy",))
    ]


def test_a_siblings_filter_is_one_senders_evidence() -> None:
    channel = hosting("alice", "amy", causal_history_size=0)
    channel.send("alice", b"one", NOW, message_id="m1")
    output = channel.send("amy", b"two", NOW, message_id="m2")
    assert [event for event in output.events if isinstance(event, PossiblyAcknowledged)] == [
        PossiblyAcknowledged("m1", "alice", ("amy",))
    ]
    waiting = {message.message_id: message.evidence for message in channel.status().outgoing}
    assert waiting == {"m1": ("amy",), "m2": ()}


def test_one_received_message_acknowledges_those_of_all() -> None:
    channel = hosting("alice", "amy", causal_history_size=0)
    channel.send("alice", b"one", NOW, message_id="m1")
    channel.send("amy", b"two", NOW, message_id="m2")
    output = channel.receive(made("x1", "m1", "m2"), NOW)
    acknowledged_by = {
        event.message_id: event.participant_id for event in output.events if isinstance(event, Acknowledged)
    }
    assert acknowledged_by == {"m1": "alice", "m2": "amy"}


def test_one_sync_is_sent_for_all_and_by_each_in_its_turn() -> None:
    channel = hosting("alice", "amy", "ann", sync_quiet_after=30)
    channel.send("alice", b"one", NOW)
    speakers = []
    for minutes in range(1, 31):
        events = channel.tick(NOW + minutes * 60_000, "sync").events
        speakers += [event.participant_id for event in events if isinstance(event, SyncSent)]
    assert len(speakers) == 30
    assert set(speakers) == {"alice", "amy", "ann"}


def test_a_sync_of_a_sibling_is_heard_too() -> None:
    channel = hosting("alice", "amy", sync_quiet_after=30)
    channel.send("alice", b"one", NOW)
    for minutes in range(1, 10):
        channel.tick(NOW + minutes * 60_000, "sync")
    assert channel.status().outgoing == ()


def test_messages_of_who_leaves_are_given_up_and_told() -> None:
    channel = hosting("alice", "amy")
    channel.send("alice", b"one", NOW, message_id="m1")
    channel.send("alice", b"two", NOW, message_id="m2")
    output = channel.leave("alice", NOW)
    assert output.events == (
        GaveUp("m1", "alice", "unacknowledged", 0),
        GaveUp("m2", "alice", "unacknowledged", 0),
    )
    assert channel.participants == ("amy",)
    assert len(channel.status().log) == 2
    channel.join("alice", NOW)


def test_each_participant_has_its_own_buffer() -> None:
    channel = hosting("alice", "amy", max_outgoing=1, causal_history_size=0, possible_acks_threshold=5)
    channel.send("alice", b"one", NOW)
    channel.send("amy", b"two", NOW)
    for name in ("alice", "amy"):
        with pytest.raises(SdsError):
            channel.send(name, b"three", NOW)


def test_a_channel_without_participants_listens_and_says_nothing() -> None:
    channel = hosting()
    assert kinds(channel.receive(made("m1"), NOW)) == ["received", "delivered"]
    channel.receive(made("m3", "m2", asks=["m1"]), NOW)
    due_ms = NOW
    for _ in range(50):
        next_ms = channel.next_due_ms()
        if next_ms is None:
            break
        due_ms = next_ms
        assert channel.tick(due_ms).send == ()
    assert channel.next_due_ms() is None


def test_a_person_may_ask_for_a_message_to_be_sent_again() -> None:
    channel = hosting("alice")
    wire = channel.send("alice", b"one", NOW, message_id="m1").send[0].wire
    assert channel.send_again("m1", NOW + 1)
    assert not channel.send_again("m2", NOW + 1)
    assert [outbound.wire for outbound in channel.tick(NOW + 1, "outgoing").send] == [wire]


def test_hosted_and_full_participants_agree() -> None:
    channel = hosting("alice", "amy")
    bob = Peer("bob")
    for number in range(10):
        wire = channel.send(("alice", "amy")[number % 2], b"%d" % number, NOW + number).send[0].wire
        bob.receive(wire, NOW + number)
        channel.receive(bob.send(b"bob %d" % number, NOW + number), NOW + number)
    assert channel.status().log == bob.log
    assert read(wire).sender_id == "amy"


def test_a_thousand_hosted_participants_cost_one_log() -> None:
    channel = hosting(*(f"p{number}" for number in range(1_000)))
    for number in range(1_000):
        channel.send(f"p{number}", b"hello", NOW + number)
    status = channel.status()
    assert len(status.log) == 1_000
    # Each was named by the histories of those after it.
    assert len(status.outgoing) == 1
