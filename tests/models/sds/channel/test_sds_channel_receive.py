"""Receiving: what is refused, what is kept aside, and what an own message is."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.sds.events import Rejected
from culm_models.sds.wire.codec import encode
from culm_models.sds.wire.messages import Message, Profile
from tests.models.sds.channels_for_tests import CHANNEL, NOW, Peer, kinds, made, read

HOUR_MS = 3_600_000
PROFILES: list[Profile] = ["spec", "js", "nim"]


def code_of(peer: Peer, wire: bytes, now_ms: int = NOW) -> str:
    (event,) = peer.receive(wire, now_ms).events
    assert isinstance(event, Rejected)
    return event.code


def test_a_message_of_another_channel_is_refused() -> None:
    bob = Peer("bob")
    assert code_of(bob, made("m1", channel="other")) == "sds.channel"
    assert bob.log == ()


def test_bytes_that_are_no_message_are_refused_with_their_code() -> None:
    bob = Peer("bob")
    assert code_of(bob, made("m1")[:-1]) == "sds.message.truncated"
    assert code_of(bob, bytes(2 << 20)) == "sds.message.too_large"


def test_a_message_without_an_id_is_refused() -> None:
    wire = encode(Message("eve", "", CHANNEL, NOW, content=b"x"), "js")
    assert code_of(Peer("bob", "js"), wire) == "sds.message.field_missing"


@pytest.mark.parametrize("profile", PROFILES)
@given(data=st.binary(max_size=300))
def test_any_bytes_are_answered_with_events(profile: Profile, data: bytes) -> None:
    bob = Peer("bob", profile)
    output = bob.receive(data, source="store")
    assert output.send == ()


@pytest.mark.parametrize("profile", PROFILES)
def test_damaged_messages_never_raise_and_keep_the_machine_whole(profile: Profile) -> None:
    random = Random(1)
    alice, bob = Peer("alice", profile), Peer("bob", profile)
    for number in range(300):
        wire = bytearray(alice.send(b"%d" % number, NOW + number))
        for _ in range(random.randint(1, 5)):
            wire[random.randrange(min(len(wire), 400))] = random.randrange(256)
        bob.receive(bytes(wire), NOW + number)
        bob.tick(NOW + number)
    log = bob.channel.status().log
    assert list(log) == sorted(log, key=lambda key: (key[0], key[1].encode()))
    assert bob.restarted(whole=True).channel.status() == bob.channel.status()


@pytest.mark.parametrize("value", [b"", b"\xff", bytes(18_752), bytes(100_000)])
def test_a_filter_of_other_measures_is_no_evidence_and_no_fault(value: bytes) -> None:
    alice = Peer("alice")
    alice.send(message_id="m1")
    assert kinds(alice.receive(made("x1", bloom=value))) == ["received", "delivered"]
    assert [message.state for message in alice.channel.status().outgoing] == ["unacknowledged"]


def test_a_filter_that_affirms_everything_is_no_evidence() -> None:
    alice = Peer("alice")
    alice.send(message_id="m1")
    full = b"\xff" * len(alice.channel.status().bloom_filter)
    for number in range(3):
        alice.receive(made(f"x{number}", bloom=full, sender=f"s{number}"))
    assert [message.state for message in alice.channel.status().outgoing] == ["unacknowledged"]


@pytest.mark.parametrize(("profile", "unit_ms"), [("spec", 1), ("js", 1), ("nim", 1_000)])
def test_a_timestamp_beyond_the_allowance_waits_until_its_time_and_never_moves_the_clock(
    profile: Profile, unit_ms: int
) -> None:
    bob = Peer("bob", profile)
    lamport = (NOW + 2 * HOUR_MS) // unit_ms
    wire = made("m1", lamport=lamport, profile=profile)
    assert code_of(bob, wire) == "sds.lamport.ahead"
    status = bob.channel.status()
    assert (status.log, status.quarantined) == ((), ("m1",))
    assert status.lamport_timestamp == NOW // unit_ms
    assert kinds(bob.receive(wire)) == []
    due_ms = lamport * unit_ms - HOUR_MS
    assert status.next_due_ms == due_ms
    assert kinds(bob.tick(due_ms - 1, "incoming")) == []
    assert kinds(bob.tick(due_ms, "incoming")) == ["received", "delivered"]
    assert bob.log_ids == ["m1"]


def test_a_timestamp_at_the_allowance_is_taken() -> None:
    bob = Peer("bob")
    assert kinds(bob.receive(made("m1", lamport=NOW + HOUR_MS))) == ["received", "delivered"]


def test_a_time_that_never_comes_is_not_kept() -> None:
    bob = Peer("bob")
    assert code_of(bob, made("m1", lamport=2**64 - 1)) == "sds.lamport.ahead"
    assert bob.channel.status().quarantined == ()
    assert read(bob.send()).lamport_timestamp == NOW + 1


def test_the_quarantine_is_bounded() -> None:
    by_count, by_bytes = Peer("bob", max_quarantined=3), Peer("bob", max_quarantined_bytes=3_000)
    for number in range(10):
        wire = made(f"m{number}", lamport=NOW + 2 * HOUR_MS, content=bytes(1_000))
        by_count.receive(wire)
        by_bytes.receive(wire)
    assert len(by_count.channel.status().quarantined) == 3
    assert len(by_bytes.channel.status().quarantined) == 3


def test_a_message_from_the_quarantine_waits_for_its_history_as_any_other() -> None:
    bob = Peer("bob")
    bob.receive(made("m2", "m1", lamport=NOW + 2 * HOUR_MS))
    assert kinds(bob.tick(NOW + HOUR_MS, "incoming")) == ["received", "missing"]
    bob.receive(made("m1"), NOW + HOUR_MS)
    assert bob.delivered == ["m1", "m2"]


def test_an_early_copy_that_came_in_time_elsewhere_is_not_delivered_twice() -> None:
    bob = Peer("bob")
    wire = made("m1", lamport=NOW + 2 * HOUR_MS)
    bob.receive(wire)
    bob.receive(wire, NOW + HOUR_MS)
    bob.tick(NOW + HOUR_MS)
    assert bob.delivered == ["m1"]


def test_a_sync_with_a_timestamp_far_ahead_is_refused() -> None:
    bob = Peer("bob")
    assert code_of(bob, made("s", "m1", lamport=2**64 - 1, content=None)) == "sds.lamport.ahead"
    assert bob.channel.status().missing == ()


def test_an_echo_of_an_own_message_says_nothing() -> None:
    alice = Peer("alice")
    alice.send()
    wire = alice.send()
    before = alice.channel.status()
    assert kinds(alice.receive(wire)) == []
    assert kinds(alice.receive(alice.send(ephemeral=True))) == []
    after = alice.channel.status()
    assert (after.outgoing, after.log) == (before.outgoing, before.log)


def test_an_own_message_that_nobody_asked_for_is_refused() -> None:
    lost = Peer("alice")
    wire = Peer("alice").send(b"from before")
    assert code_of(lost, wire) == "sds.sender.own"
    assert lost.log == ()


def test_an_own_message_comes_back_from_a_store_after_a_loss_of_state() -> None:
    before, lost = Peer("alice"), Peer("alice")
    wire = before.send(b"from before", NOW + 5_000)
    assert kinds(lost.receive(wire, source="store")) == ["received", "delivered"]
    assert lost.log == before.log
    assert lost.channel.status().lamport_timestamp == NOW + 5_000


def test_an_own_message_that_others_build_on_is_taken_from_whoever_brings_it() -> None:
    before, lost, bob = Peer("alice"), Peer("alice"), Peer("bob")
    wire = before.send(b"from before")
    bob.receive(wire)
    lost.receive(bob.send())
    assert kinds(lost.receive(wire)) == ["received", "delivered", "delivered"]
    assert lost.log == bob.log


def test_a_sync_of_an_own_participant_is_passed_over() -> None:
    alice = Peer("alice")
    assert kinds(alice.receive(made("s", "m1", content=None, sender="alice"))) == []
    assert alice.channel.status().missing == ()


def test_in_profile_nim_a_message_without_content_is_content() -> None:
    bob = Peer("bob", "nim")
    output = bob.receive(made("m1", content=None, lamport=NOW // 1_000, profile="nim"))
    assert kinds(output) == ["received", "delivered"]


def test_a_long_hint_is_not_remembered() -> None:
    bob = Peer("bob")
    bob.receive(made("m1"), retrieval_hint=bytes(5_000))
    assert read(bob.send()).causal_history[0].retrieval_hint is None


def test_old_text_with_a_negative_timestamp_is_refused_not_followed() -> None:
    # An int32 below zero takes ten bytes and reads as 2**64 - 1.
    wire = made("m1", lamport=2**64 - 1)
    bob = Peer("bob")
    bob.receive(wire)
    assert bob.channel.status().lamport_timestamp == NOW


def test_small_timestamps_of_the_old_text_are_taken() -> None:
    bob = Peer("bob")
    assert kinds(bob.receive(made("m1", lamport=1))) == ["received", "delivered"]


def test_a_received_filter_holds_what_waits_too() -> None:
    bob = Peer("bob")
    empty = bob.channel.status().bloom_filter
    bob.receive(made("m2", "m1"))
    assert bob.channel.status().bloom_filter != empty
    assert read(bob.send()).causal_history == ()


def test_messages_under_a_hosted_id_that_nobody_here_sent_are_counted() -> None:
    here, elsewhere = Peer("alice"), Peer("alice", now_ms=NOW + 1)
    bob = Peer("bob")
    wire = here.send(now_ms=NOW)
    here.receive(wire)
    bob.receive(wire)
    sync = here.tick(NOW + 100_000, "sync").send[0].wire
    here.receive(sync, NOW + 100_001)
    assert here.channel.foreign_own == 0, "its own ones may come back"
    here.receive(elsewhere.send(b"other words"))
    assert here.channel.foreign_own == 1
    bob.receive(here.send(b"more", NOW + 100_002))
    here.receive(made("sync-0123456789abcdef", sender="alice", content=None))
    assert here.channel.foreign_own == 2
