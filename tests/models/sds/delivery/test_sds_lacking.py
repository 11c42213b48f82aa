"""A message that no causal history names any more is told to those whom it has passed by."""

from __future__ import annotations

import pytest

from culm_models.sds.bloom import filter_of
from culm_models.sds.wire.messages import Profile
from tests.models.sds.channels_for_tests import NOW, Peer, made, read

IDS = [f"m{number}" for number in range(6)]


def filter_without(*lacking: str, profile: Profile = "spec") -> bytes:
    return filter_of(profile, [one for one in IDS if one not in lacking], 1_000, 0.001)


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
    told = 0
    for _ in range(30):
        now_ms += 100_000
        peer.receive(sync_with(filter_without("m1"), at_ms=now_ms), now_ms)
        sent = peer.tick(now_ms + 90_000, only="sync").send
        told += sum("m1" in [one.message_id for one in read(each.wire).causal_history] for each in sent)
    assert told == 4
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
        value = filter_of(profile, [one for one in ids[:number] if one != "x100"], 1_000, 0.001)
        lamport = (NOW + 1_000 * number) // unit_ms
        wire = made(message_id, lamport=lamport, sender=f"sender {number % 5}", bloom=value, profile=profile)
        peer.receive(wire, NOW + 1_000 * number)
    wire = peer.send(now_ms=NOW + 500_000)
    assert [entry.message_id for entry in read(wire, profile).causal_history] == ["x100", "x399"]
