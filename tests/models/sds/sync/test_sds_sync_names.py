"""What messages name before their regular causal history."""

from __future__ import annotations

import random

import pytest

from culm_models.sds.bloom import filter_of
from culm_models.sds.settings import SdsSettings
from culm_models.sds.sync.names import MAX_REPEATED, SyncNames
from culm_models.sds.wire.messages import Profile
from culm_models.testing.sds.network import SdsNetwork
from tests.models.sds.channels_for_tests import NOW, Peer, made, read


def listening(count: int) -> SyncNames:
    """bob's m0, m1, … were received."""
    names = SyncNames()
    for number in range(count):
        names.received(f"m{number}", "bob")
    return names


def test_what_only_a_filter_has_shown_is_named_by_the_next_sync() -> None:
    names = listening(4)
    assert names.names() == (), "the first sync names what its regular causal history holds"
    names.mark_named(["m2", "m3"])
    assert names.names()[:2] == ("m0", "m1")
    assert names.urgent() == ()


def test_what_was_named_is_named_once_more() -> None:
    names = listening(1)
    names.mark_named([])
    names.mark_named(["m0"])
    names.mark_named([])
    assert names.names() == ("m0",)
    names.mark_named(["m0"])
    names.mark_named([])
    assert names.names() == ()


def test_what_a_third_participant_names_is_acknowledged() -> None:
    names = listening(2)
    names.mark_named([])
    names.named_by("carol", ["m0"])
    assert names.names() == ("m1",)


def test_what_its_writer_names_is_not() -> None:
    names = listening(1)
    names.repeated("m1", "bob")
    names.mark_named([])
    names.named_by("bob", ["m0", "m1"])
    assert set(names.names()) == {"m0", "m1"}


def test_repeated_ones_come_first_then_lacking_ones() -> None:
    names = listening(1)
    names.mark_named([])
    names.add_missing(["m7"])
    names.repeated("m8", "bob")
    assert names.names() == ("m8", "m7", "m0")
    assert names.urgent() == ("m8", "m7")


def test_what_others_lack_is_told_by_four_syncs_until_more_is_said() -> None:
    names = SyncNames()
    for _ in range(4):
        assert names.add_missing(["m1"])
        assert names.names() == ("m1",)
        names.mark_named(["m1"])
    assert not names.add_missing(["m1"])
    assert names.names() == ()
    for _ in range(16):
        names.content_came()
    assert names.add_missing(["m1"])


def test_everything_is_bounded() -> None:
    names = listening(10_000)
    names.mark_named([])
    assert len(names.names()) == 64
    names.add_missing(f"l{number}" for number in range(10_000))
    for number in range(10_000):
        names.repeated(f"r{number}", "bob")
    assert len(names.names()) == MAX_REPEATED + 64 + 64


def test_what_was_never_named_goes_before_what_is_named_again() -> None:
    names = listening(64)
    names.mark_named([])
    names.mark_named([f"m{number}" for number in range(40)])
    for number in range(64, 104):
        names.received(f"m{number}", "bob")
    names.mark_named([])
    assert {f"m{number}" for number in range(64, 104)} <= set(names.names())


def test_it_goes_on_over_a_restart() -> None:
    names = listening(3)
    names.mark_named(["m1"])
    names.repeated("m8", "carol")
    names.add_missing(["m7"])
    names.mark_named(["m7"])
    again = SyncNames.restored(names.items())
    assert again.items() == names.items()
    assert again.names() == names.names()


# How many syncs the answers to content take in a group that loses messages, simulated.


MESSAGES = 50
PAUSE_MS = 10_000


def test_copies_that_are_sent_again_are_not_answered_as_soon_as_new_content() -> None:
    """Everybody hears each copy, so several would answer it: that had made seven syncs for each message."""
    settings = SdsSettings.for_participants("spec")
    channel = SdsNetwork(10, settings, seed=10, delay_ms=(20, 200), loss=0.4)
    rng = random.Random(10)
    for number in range(len(channel.nodes)):
        channel.send(number, b"a first word")
        channel.run_until(channel.now_ms + PAUSE_MS)
    channel.counts.clear()
    for _ in range(MESSAGES):
        channel.send(rng.randrange(len(channel.nodes)), b"words")
        channel.run_until(channel.now_ms + PAUSE_MS)
    assert channel.counts["sync"] <= 5 * MESSAGES


# A message that no causal history names any more is told to those whom it has passed by.


IDS = [f"m{number}" for number in range(6)]


def filter_without(*lacking: str, profile: Profile = "spec") -> bytes:
    return filter_of(profile, [message_id for message_id in IDS if message_id not in lacking], 1_000, 0.001)


def who_has_all(profile: Profile = "spec") -> Peer:
    """Six messages of six senders; only the last one is named by what is sent next."""
    peer = Peer("bob", profile, causal_history_size=1)
    for number, message_id in enumerate(IDS):
        peer.receive(made(message_id, lamport=NOW + number, sender=f"sender {number}", profile=profile))
    return peer


def sync_with(value: bytes, *, at_ms: int) -> bytes:
    return made(f"sync at {at_ms}", lamport=at_ms, sender="cem", content=None, bloom=value)


def named_by(peer: Peer, now_ms: int) -> list[str]:
    (outbound,) = peer.tick(now_ms, only="sync").send
    return [entry.message_id for entry in read(outbound.wire).causal_history]


def test_what_the_filter_of_a_sync_lacks_is_named_by_the_next_sync() -> None:
    peer = who_has_all()
    peer.receive(sync_with(filter_without("m1", "m3"), at_ms=NOW + 100_000), NOW + 100_000)
    assert named_by(peer, NOW + 200_000) == ["m1", "m3", "m5"]


def test_and_by_content_that_goes_out_before() -> None:
    peer = who_has_all()
    peer.receive(sync_with(filter_without("m1"), at_ms=NOW + 100_000), NOW + 100_000)
    wire = peer.send(now_ms=NOW + 101_000)
    assert [entry.message_id for entry in read(wire).causal_history] == ["m1", "m5"]


def test_whoever_lacks_nothing_is_told_the_end_of_the_log_alone() -> None:
    peer = who_has_all()
    peer.receive(sync_with(filter_without(), at_ms=NOW + 100_000), NOW + 100_000)
    assert named_by(peer, NOW + 200_000) == ["m5"]


def test_what_a_sync_names_itself_its_sender_is_not_told() -> None:
    peer = who_has_all()
    wire = made("s", "m1", lamport=NOW, sender="cem", content=None, bloom=filter_without("m1", "m2"))
    peer.receive(wire, NOW + 100_000)
    assert named_by(peer, NOW + 200_000) == ["m2", "m5"]


def test_each_is_told_a_few_times_and_then_there_is_silence_until_there_is_content() -> None:
    peer = who_has_all()
    now_ms = NOW
    mentions = 0
    for _ in range(30):
        now_ms += 100_000
        peer.receive(sync_with(filter_without("m1"), at_ms=now_ms), now_ms)
        sent = peer.tick(now_ms + 90_000, only="sync").send
        mentions += sum(
            "m1" in [entry.message_id for entry in read(each.wire).causal_history] for each in sent
        )
    assert mentions == 4
    assert not sent
    for number in range(16):
        peer.receive(made(f"n{number}", lamport=now_ms + number, sender="amy"), now_ms)
    peer.receive(sync_with(filter_without("m1"), at_ms=now_ms), now_ms)
    assert "m1" in named_by(peer, now_ms + 90_000)


def test_one_who_lacks_nearly_everything_is_told_the_end_of_the_log() -> None:
    peer = Peer("bob", causal_history_size=1)
    for number in range(200):
        peer.receive(made(f"x{number}", lamport=NOW + number, sender=f"sender {number % 5}"))
    peer.receive(sync_with(filter_of("spec", ["x199"], 1_000, 0.001), at_ms=NOW + 100_000), NOW + 100_000)
    assert named_by(peer, NOW + 200_000) == ["x199"]


@pytest.mark.parametrize("profile", ["spec", "nim"])
def test_the_filters_of_content_are_looked_at_now_and_then(profile: Profile) -> None:
    peer = Peer("bob", profile, causal_history_size=1)
    ids = [f"x{number}" for number in range(400)]
    unit_ms = 1_000 if profile == "nim" else 1
    for number, message_id in enumerate(ids):
        value = filter_of(profile, [earlier for earlier in ids[:number] if earlier != "x100"], 1_000, 0.001)
        lamport = (NOW + 1_000 * number) // unit_ms
        wire = made(message_id, lamport=lamport, sender=f"sender {number % 5}", bloom=value, profile=profile)
        peer.receive(wire, NOW + 1_000 * number)
    wire = peer.send(now_ms=NOW + 500_000)
    assert [entry.message_id for entry in read(wire, profile).causal_history] == ["x100", "x399"]
