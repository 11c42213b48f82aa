"""What happens by the time alone, and by what others show: re-sends, acknowledgements, syncs, repair."""

from __future__ import annotations

import pytest

from culm_models.sds.events import (
    Acknowledged,
    GaveUp,
    Outbound,
    PossiblyAcknowledged,
    RepairAnswered,
    RepairRequested,
    SyncSent,
)
from culm_models.sds.wire.messages import Profile
from tests.models.sds.channels_for_tests import NOW, Peer, kinds, made, read

PROFILES: list[Profile] = ["spec", "js", "nim"]


def later(peer: Peer) -> int:
    """When the peer has something to do next."""
    due_ms = peer.channel.next_due_ms()
    assert due_ms is not None
    return due_ms


@pytest.mark.parametrize("profile", PROFILES)
def test_a_message_is_sent_again_byte_by_byte_after_others_went_out(profile: Profile) -> None:
    alice = Peer("alice", profile, bloom_capacity=50)
    wires = [alice.send(b"%d" % number, NOW) for number in range(150)]
    output = alice.tick(NOW + 30_000, "outgoing")
    assert [(outbound.kind, outbound.wire) for outbound in output.send] == [("retry", wire) for wire in wires]


def test_nothing_is_sent_again_before_its_time() -> None:
    alice = Peer("alice")
    alice.send()
    assert alice.tick(NOW + 29_999, "outgoing").send == ()


def test_sending_again_moves_no_clock_and_no_log() -> None:
    alice = Peer("alice")
    alice.send()
    before = alice.channel.status()
    alice.tick(NOW + 30_000, "outgoing")
    after = alice.channel.status()
    assert (after.lamport_timestamp, after.log) == (before.lamport_timestamp, before.log)
    assert after.bloom_filter == before.bloom_filter


def test_after_the_last_attempt_it_is_given_up_with_the_state_it_had() -> None:
    alice = Peer("alice", resend_attempts=2)
    alice.send(message_id="m1")
    now_ms, sent = NOW, 0
    while alice.channel.status().outgoing:
        now_ms += 600_000
        sent += len(alice.tick(now_ms, "outgoing").send)
    gave_up = [event for event in alice.events if isinstance(event, GaveUp)]
    assert gave_up == [GaveUp("m1", "alice", "unacknowledged", 2)]
    assert sent == 2


def test_a_causal_history_acknowledges() -> None:
    alice, bob = Peer("alice"), Peer("bob")
    bob.receive(alice.send(message_id="m1"))
    output = alice.receive(bob.send())
    assert [event for event in output.events if isinstance(event, Acknowledged)] == [
        Acknowledged("m1", "alice", "causal_history", ("bob",))
    ]
    assert alice.channel.status().outgoing == ()


def test_a_filter_possibly_acknowledges_and_two_senders_filters_do_acknowledge() -> None:
    alice = Peer("alice")
    bob, carol = (Peer(name, causal_history_size=0) for name in ("bob", "carol"))
    wire = alice.send(message_id="m1")
    for peer in (bob, carol):
        peer.receive(wire)
    first, repeated = alice.receive(bob.send()), alice.receive(bob.send(b"more"))
    assert [event for event in first.events if isinstance(event, PossiblyAcknowledged)] == [
        PossiblyAcknowledged("m1", "alice", ("bob",))
    ]
    assert kinds(repeated) == ["received", "delivered"]
    (waits,) = alice.channel.status().outgoing
    assert (waits.state, waits.evidence) == ("possibly_acknowledged", ("bob",))
    assert kinds(alice.receive(carol.send())) == ["received", "delivered"], "a filter that equals bob's"
    second = alice.receive(carol.send(b"more"))
    assert [event for event in second.events if isinstance(event, Acknowledged)] == [
        Acknowledged("m1", "alice", "bloom_filter", ("bob", "carol"))
    ]


def test_a_copy_of_a_known_message_acknowledges_too() -> None:
    alice = Peer("alice")
    alice.receive(made("x1"))
    alice.send(message_id="m1")
    assert kinds(alice.receive(made("x1", "m1"))) == ["acknowledged"]


def test_nobody_acknowledges_its_own_message() -> None:
    alice = Peer("alice")
    alice.send(message_id="m1")
    assert kinds(alice.receive(made("x1", "m1", sender="alice"), source="store")) == ["received", "delivered"]
    assert len(alice.channel.status().outgoing) == 1


def test_a_possibly_acknowledged_message_is_sent_again_later_than_another() -> None:
    alice, bob = Peer("alice"), Peer("bob", causal_history_size=0)
    bob.receive(alice.send(message_id="m1"))
    alice.receive(bob.send())
    alice.send(message_id="m2")
    assert [outbound.message_id for outbound in alice.tick(NOW + 30_000, "outgoing").send] == ["m2"]
    sent = alice.tick(NOW + 120_000, "outgoing").send
    assert "m1" in [outbound.message_id for outbound in sent]


def test_a_sync_names_the_log_and_is_kept_nowhere() -> None:
    alice = Peer("alice")
    alice.send(message_id="m1")
    before = alice.channel.status()
    output = alice.tick(NOW + 60_000, "sync")
    assert kinds(output) == ["sync_sent"]
    (sent,) = output.send
    message = read(sent.wire)
    assert (sent.kind, message.kind) == ("sync", "sync")
    assert [entry.message_id for entry in message.causal_history] == ["m1"]
    assert message.bloom_filter == before.bloom_filter
    after = alice.channel.status()
    assert message.lamport_timestamp == after.lamport_timestamp == NOW + 60_000
    assert (after.log, after.outgoing) == (before.log, before.outgoing)
    assert after.bloom_filter == before.bloom_filter


def test_no_sync_comes_before_the_floor() -> None:
    alice = Peer("alice")
    alice.send()
    assert alice.tick(NOW + 29_999, "sync").send == ()


def test_no_sync_of_an_empty_log_and_its_clock_stands() -> None:
    bob = Peer("bob")
    bob.receive(made("s1", content=None), NOW)
    before = bob.channel.status().lamport_timestamp
    for minutes in range(1, 10):
        assert bob.tick(NOW + minutes * 60_000, "sync").send == ()
    assert bob.channel.status().lamport_timestamp == before


def test_syncs_end_when_there_is_no_news() -> None:
    alice = Peer("alice")
    alice.send()
    sent = sum(len(alice.tick(NOW + minutes * 60_000, "sync").send) for minutes in range(1, 100))
    assert sent == alice.settings.sync_quiet_after


def test_a_sync_of_the_other_side_ends_the_resends_of_two() -> None:
    alice, bob = Peer("alice"), Peer("bob")
    bob.receive(alice.send())
    due_ms = later(bob)
    (sync,) = bob.tick(due_ms).send
    alice.receive(sync.wire, due_ms)
    assert alice.channel.status().outgoing == ()


def test_repeated_content_is_named_by_an_early_sync_however_far_back_it_is() -> None:
    alice, bob = Peer("alice"), Peer("bob", causal_history_size=2, possible_acks_threshold=2)
    wire = alice.send(message_id="m1")
    bob.receive(wire)
    for number in range(20):
        bob.receive(made(f"x{number}", lamport=NOW + number))
    bob.receive(wire, NOW + 30_000)
    due_ms = later(bob)
    assert due_ms <= NOW + 60_000
    (sync,) = bob.tick(due_ms, "sync").send
    named = [entry.message_id for entry in read(sync.wire).causal_history]
    assert named == ["m1", "x18", "x19"]
    assert "acknowledged" in kinds(alice.receive(sync.wire, due_ms))


def test_only_limits_a_tick_to_one_part() -> None:
    alice = Peer("alice")
    alice.send()
    alice.receive(made("x2", "x1"))
    now_ms = NOW + 3_600_000
    assert kinds(alice.tick(now_ms, "repair"))[0] == "sync_sent"
    assert {outbound.kind for outbound in alice.tick(now_ms, "outgoing").send} == {"retry"}
    assert "lost" in kinds(alice.tick(now_ms, "incoming"))


def test_profile_nim_sends_no_syncs_unless_told_to() -> None:
    alice = Peer("alice", "nim")
    alice.send()
    assert all(outbound.kind != "sync" for outbound in alice.tick(NOW + 600_000).send)
    willing = Peer("alice", "nim", sync_messages=True)
    willing.send()
    assert any(outbound.kind == "sync" for outbound in willing.tick(NOW + 600_000).send)


def test_a_tick_does_all_that_is_due_so_that_the_next_is_later() -> None:
    alice = Peer("alice", lost_timeout_ms=300_000)
    for number in range(5):
        alice.send(b"%d" % number, NOW + number)
        alice.receive(made(f"x{number}", f"y{number}", lamport=NOW + number), NOW + number)
    now_ms = NOW
    for _ in range(2_000):
        due_ms = alice.channel.next_due_ms()
        if due_ms is None:
            break
        assert due_ms > now_ms
        now_ms = due_ms
        alice.tick(now_ms)
    assert alice.channel.next_due_ms() is None
    assert alice.channel.status().missing == ()


@pytest.mark.parametrize("profile", ["spec", "js"])
def test_a_missing_message_is_asked_for_and_answered_byte_by_byte(profile: Profile) -> None:
    alice, bob = (Peer(name, profile) for name in ("alice", "bob"))
    first, second = alice.send(b"one", message_id="m1"), alice.send(b"two", NOW + 1)
    bob.receive(second)
    now_ms = NOW
    answers: list[Outbound] = []
    while not answers:
        now_ms = min(later(alice), later(bob))
        for outbound in bob.tick(now_ms).send:
            alice.receive(outbound.wire, now_ms)
        answers = [outbound for outbound in alice.tick(now_ms).send if outbound.kind == "repair"]
        assert now_ms < NOW + 300_000
    assert [answer.wire for answer in answers] == [first]
    assert [event.carrier_id[:5] for event in bob.events if isinstance(event, RepairRequested)] == ["sync-"]
    assert [event.message_id for event in alice.events if isinstance(event, RepairAnswered)] == ["m1"]
    bob.receive(answers[0].wire, now_ms)
    assert bob.log == alice.log


def test_new_messages_carry_the_requests_that_are_due() -> None:
    bob = Peer("bob", "nim")
    bob.receive(made("m2", "m1", lamport=NOW // 1_000, profile="nim"))
    message = read(bob.send(b"x", NOW + 300_000), "nim")
    assert [entry.message_id for entry in message.repair_request] == ["m1"]


def test_requests_in_what_a_store_gives_are_not_answered() -> None:
    alice = Peer("alice")
    alice.send(message_id="m1")
    alice.receive(made("x1", asks=["m1"]), source="store")
    assert all(outbound.kind != "repair" for outbound in alice.tick(NOW + 600_000, "repair").send)
    alice.receive(made("x2", asks=["m1"]))
    assert any(outbound.kind == "repair" for outbound in alice.tick(NOW + 600_000, "repair").send)


def test_without_kept_wires_only_unacknowledged_messages_are_answered() -> None:
    bob = Peer("bob", max_wire_bytes=0)
    bob.receive(made("m1"))
    mine = bob.send()
    for message_id in ("m1", read(mine).message_id):
        bob.receive(made(f"x-{message_id}", asks=[message_id]))
    sent = [outbound.wire for outbound in bob.tick(NOW + 600_000, "repair").send if outbound.kind == "repair"]
    assert sent == [mine]


def test_repair_can_be_switched_off() -> None:
    bob = Peer("bob", repair_requests=False)
    bob.receive(made("m2", "m1"))
    mine = bob.send(message_id="mine")
    assert mine
    bob.receive(made("x1", asks=["mine"]))
    output = bob.tick(NOW + 600_000, "repair")
    assert output.send == ()


def test_sync_ids_differ() -> None:
    alice = Peer("alice")
    alice.send()
    for minutes in range(1, 4):
        alice.tick(NOW + minutes * 60_000, "sync")
    ids = [event.message_id for event in alice.events if isinstance(event, SyncSent)]
    assert len(set(ids)) == len(ids) == 3
