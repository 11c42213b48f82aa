"""Sending: what goes into a message, into the log and the buffers, and what is refused."""

from __future__ import annotations

import pytest

from culm_models.sds.acks.outgoing import OutgoingFullError
from culm_models.sds.bloom import LAYOUTS, ReceivedFilter
from culm_models.sds.errors import (
    EmptyContentError,
    IdSizeError,
    KindError,
    KnownMessageError,
    OversizeError,
    ParticipantError,
    SdsError,
    TextError,
)
from culm_models.sds.events import Sent
from culm_models.sds.wire.messages import Profile
from tests.models.sds.channels_for_tests import NOW, Peer, kinds, made, read

PROFILES: list[Profile] = ["spec", "js", "nim"]


@pytest.mark.parametrize("profile", PROFILES)
def test_a_message_names_the_end_of_the_log_and_carries_the_filter_without_itself(profile: Profile) -> None:
    alice = Peer("alice", profile, causal_history_size=2)
    wires = [alice.send(b"%d" % number) for number in range(4)]
    message = read(wires[3], profile)
    ids = [read(wire, profile).message_id for wire in wires]
    assert [entry.message_id for entry in message.causal_history] == ids[1:3]
    assert {entry.sender_id for entry in message.causal_history} == {"alice"}
    assert message.bloom_filter is not None
    received = ReceivedFilter.parse(profile, message.bloom_filter, 1_000, 0.001)
    assert received is not None
    shown = [received.contains(LAYOUTS[profile].hash_pair(message_id)) for message_id in ids]
    assert shown == [True, True, True, False]
    assert alice.log_ids == ids


@pytest.mark.parametrize(("profile", "unit_ms"), [("spec", 1), ("js", 1), ("nim", 1_000)])
def test_the_lamport_timestamp_is_the_time_or_one_more_than_the_last(profile: Profile, unit_ms: int) -> None:
    alice = Peer("alice", profile, now_ms=NOW)
    first = read(alice.send(now_ms=NOW + 60_000), profile).lamport_timestamp
    second = read(alice.send(now_ms=NOW + 60_000), profile).lamport_timestamp
    back = read(alice.send(now_ms=NOW), profile).lamport_timestamp
    assert first == (NOW + 60_000) // unit_ms
    assert (second, back) == (first + 1, first + 2)


def test_a_received_message_moves_the_clock_to_its_timestamp() -> None:
    alice = Peer("alice")
    alice.receive(made("m1", lamport=NOW + 5_000))
    assert alice.channel.status().lamport_timestamp == NOW + 5_000
    assert read(alice.send()).lamport_timestamp == NOW + 5_001


def test_a_received_message_moves_the_clock_of_profile_nim_one_further() -> None:
    alice = Peer("alice", "nim")
    alice.receive(made("m1", lamport=NOW // 1_000 + 7, profile="nim"))
    assert alice.channel.status().lamport_timestamp == NOW // 1_000 + 8


def test_equal_contents_get_different_ids() -> None:
    alice, bob = Peer("alice"), Peer("bob")
    ids = {read(peer.send(b"ok")).message_id for peer in (alice, alice, bob, bob)}
    assert len(ids) == 4


def test_the_same_nonce_gives_the_same_id_and_is_sent_once() -> None:
    alice, again = Peer("alice"), Peer("alice", causal_history_size=0)
    first = read(alice.send(b"ok", nonce=b"n"))
    again.send(b"before")
    assert read(again.send(b"ok", nonce=b"n")).message_id == first.message_id
    with pytest.raises(KnownMessageError):
        alice.send(b"ok", nonce=b"n")


def test_the_hint_of_a_message_is_named_in_later_histories() -> None:
    alice = Peer("alice")
    alice.send(message_id="m1", retrieval_hint=b"hint")
    alice.receive(made("m2", "m1", sender="bob"), retrieval_hint=b"other")
    named = {entry.message_id: entry for entry in read(alice.send()).causal_history}
    assert (named["m1"].retrieval_hint, named["m1"].sender_id) == (b"hint", "alice")
    assert (named["m2"].retrieval_hint, named["m2"].sender_id) == (b"other", "bob")


def test_a_hint_that_becomes_known_later_is_named_from_then_on() -> None:
    alice = Peer("alice")
    wire = made("m1", sender="bob")
    alice.receive(wire)
    assert read(alice.send()).causal_history[0].retrieval_hint is None
    alice.receive(wire, retrieval_hint=b"hint")
    assert not alice.channel.learn_hint("m1", b"another")
    assert not alice.channel.learn_hint("m0", b"unknown")
    assert read(alice.send()).causal_history[0].retrieval_hint == b"hint"


def test_sending_tells_content_and_position() -> None:
    alice = Peer("alice")
    alice.send(b"one")
    output = alice.channel.send("alice", b"two", NOW)
    (event,) = output.events
    assert isinstance(event, Sent)
    assert (event.content, event.position, event.ephemeral) == (b"two", 1, False)
    assert [(outbound.kind, outbound.participant_id) for outbound in output.send] == [("new", "alice")]


def test_an_ephemeral_message_carries_nothing_and_leaves_no_trace() -> None:
    alice = Peer("alice")
    alice.send(b"kept")
    before = alice.channel.status()
    output = alice.channel.send("alice", b"typing", NOW, ephemeral=True)
    message = read(output.send[0].wire)
    assert (message.kind, message.causal_history, message.bloom_filter) == ("ephemeral", (), None)
    assert [outbound.kind for outbound in output.send] == ["ephemeral"]
    assert kinds(output) == ["sent"]
    assert alice.channel.status() == before


def refusals() -> list[tuple[type[SdsError], dict[str, object]]]:
    return [
        (EmptyContentError, {"content": b""}),
        (ParticipantError, {"participant_id": "mallory"}),
        (KnownMessageError, {"message_id": "m1"}),
        (OversizeError, {"message_id": ""}),
        (OversizeError, {"content": bytes(2 << 20)}),
        (OversizeError, {"retrieval_hint": bytes(5_000)}),
        (OversizeError, {"content": bytes(2 << 20), "ephemeral": True}),
        (IdSizeError, {"message_id": "x" * 5_000}),
        (TextError, {"message_id": "\ud800"}),
    ]


@pytest.mark.parametrize(("error", "overrides"), refusals())
def test_what_is_refused_changes_nothing(error: type[SdsError], overrides: dict[str, object]) -> None:
    alice = Peer("alice")
    alice.send(message_id="m1")
    before, head = alice.channel.status(), alice.channel.head()
    options = {"participant_id": "alice", "content": b"x", "now_ms": NOW, **overrides}
    with pytest.raises(error):
        alice.channel.send(**options)  # type: ignore[arg-type]  # drawn from a table
    assert alice.channel.status() == before
    assert alice.channel.head() == head


def test_too_many_unacknowledged_messages_are_refused() -> None:
    alice = Peer("alice", max_outgoing=2)
    alice.send()
    alice.send()
    with pytest.raises(OutgoingFullError):
        alice.send()
    assert len(alice.log) == 2


def test_profile_nim_has_no_ephemeral_messages() -> None:
    with pytest.raises(KindError):
        Peer("alice", "nim").send(ephemeral=True)


def test_the_largest_message_fits_its_receivers() -> None:
    alice, bob = Peer("alice", max_message_bytes=40_000), Peer("bob", max_message_bytes=40_000)
    size = 0
    for content_bytes in range(1_000, 40_000, 1_000):
        try:
            wire = alice.send(bytes(content_bytes))
        except OversizeError:
            break
        size = len(wire)
        assert "received" in kinds(bob.receive(wire))
    assert 15_000 < size <= 40_000
