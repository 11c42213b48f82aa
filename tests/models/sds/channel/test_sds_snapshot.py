"""A restart: journal and head bring the same machine back, which goes on as the other one does."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from culm_models.sds.channel import Channel
from culm_models.sds.errors import JournalForgottenError, SnapshotError
from culm_models.sds.events import ChannelOutput
from culm_models.sds.wire.messages import Profile
from tests.models.sds.channels_for_tests import CHANNEL, NOW, Peer, made, settings_of

PROFILES: list[Profile] = ["spec", "js", "nim"]
SMALL = {
    "bloom_capacity": 20,
    "max_log_entries": 30,
    "max_waiting": 12,
    "lost_timeout_ms": 120_000,
    "resend_attempts": 3,
    "max_wire_bytes": 0,
}


Call: TypeAlias = Callable[[Channel], object]


def lived(profile: Profile, seed: int, steps: int) -> list[tuple[Call, object]]:
    """What happened to a channel of two hosted participants in a bad world, and what came of each step."""
    random, now_ms = Random(seed), NOW
    channel = fresh(profile)
    others = [Peer(f"p{number}", profile, **SMALL) for number in range(3)]
    air: list[bytes] = []
    calls: list[tuple[Call, object]] = []

    def do(call: Call) -> None:
        output = call(channel)
        calls.append((call, output))
        if isinstance(output, ChannelOutput):
            air.extend(outbound.wire for outbound in output.send)

    for number in range(steps):
        now_ms += random.choice((0, 10, 1_000, 20_000))
        for other in others:
            if air and random.random() < 0.7:
                other.receive(random.choice(air), now_ms)
            if random.random() < 0.2 and len(other.channel.status().outgoing) < 10:
                air.append(other.send(b"%d" % number, now_ms))
            air += [outbound.wire for outbound in other.tick(now_ms).send]
        del air[:-40]
        lamport = (now_ms + 3_700_000) // (1_000 if profile == "nim" else 1)
        options: list[Call] = [
            partial(Channel.send, participant_id="alice", content=b"a", now_ms=now_ms),
            partial(Channel.send, participant_id="amy", content=b"b", now_ms=now_ms, retrieval_hint=b"h"),
            partial(Channel.tick, now_ms=now_ms),
            partial(
                Channel.receive, wire=made(f"f{number}", "x", lamport=lamport, profile=profile), now_ms=now_ms
            ),
            partial(
                Channel.receive,
                wire=made(f"y{number}", f"z{number}", profile=profile, lamport=7),
                now_ms=now_ms,
            ),
            partial(Channel.compare_head, head=[(1, f"head{number}")], now_ms=now_ms),
        ]
        chances = [2, 2, 3, 0.5, 0.5, 0.3]
        for wire in random.sample(air, min(len(air), 5)):
            options += [
                partial(Channel.receive, wire=wire, now_ms=now_ms),
                partial(Channel.receive, wire=wire, now_ms=now_ms, retrieval_hint=b"hint", source="store"),
            ]
            chances += [3, 1]
        do(random.choices(options, chances)[0])
    return calls


def fresh(profile: Profile) -> Channel:
    channel = Channel(CHANNEL, profile, settings_of(profile, **SMALL), now_ms=NOW, seed=b"seed")
    channel.join("alice", NOW)
    channel.join("amy", NOW)
    return channel


def copy_of(channel: Channel, chunks: list[bytes]) -> Channel:
    profile = channel.profile
    copy = Channel(CHANNEL, profile, settings_of(profile, **SMALL), now_ms=NOW - 1, seed=b"seed")
    for chunk in chunks:
        copy.apply_journal(chunk)
    copy.restore_head(channel.head())
    return copy


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("seed", range(3))
def test_a_channel_that_restarts_again_and_again_does_what_one_that_does_not_does(
    profile: Profile, seed: int
) -> None:
    kinds_seen: set[str] = set()
    channel = fresh(profile)
    chunks, mark = [channel.journal_whole()], channel.journal_mark
    for number, (call, output) in enumerate(lived(profile, seed, 400)):
        assert call(channel) == output
        if isinstance(output, ChannelOutput):
            kinds_seen |= {event.kind for event in output.events}
        if number % 7 == 0:
            chunks.append(channel.journal_since(mark))
            mark = channel.journal_mark
            if number % 5 == 0:
                chunks = [channel.journal_whole()]
            copy = copy_of(channel, chunks)
            assert copy.status() == channel.status()
            assert copy.head() == channel.head()
            assert copy.journal_whole() == channel.journal_whole()
            channel = copy
    assert channel.status().log_start > 0
    assert kinds_seen >= {"sent", "received", "delivered", "missing", "lost", "acknowledged", "rejected"}


@pytest.mark.parametrize("profile", PROFILES)
def test_equal_histories_give_equal_bytes(profile: Profile) -> None:
    calls = lived(profile, 7, 100)
    first, second = fresh(profile), fresh(profile)
    for channel in (first, second):
        for call, _ in calls:
            call(channel)
    assert first.journal_since(0) == second.journal_since(0)
    assert first.journal_whole() == second.journal_whole()
    assert first.head() == second.head()


def test_a_stale_copy_catches_up_by_newer_chunks() -> None:
    alice = Peer("alice")
    alice.send(message_id="m1")
    stale = alice.restarted(whole=True).channel
    mark = alice.channel.journal_mark
    alice.receive(made("x1", "m1", "y"))
    alice.send(message_id="m2")
    stale.apply_journal(alice.channel.journal_since(mark))
    stale.restore_head(alice.channel.head())
    assert stale.status() == alice.channel.status()
    assert stale.tick(NOW + 30_000) == alice.channel.tick(NOW + 30_000)


def test_a_chunk_that_is_there_already_is_passed_over() -> None:
    alice = Peer("alice")
    alice.send()
    chunk = alice.channel.journal_since(0)
    copy = alice.restarted(whole=False).channel
    copy.apply_journal(chunk)
    assert copy.status().log == alice.log


def test_a_gap_between_chunks_is_refused() -> None:
    alice = Peer("alice")
    alice.send()
    mark = alice.channel.journal_mark
    alice.send()
    fresh = Peer("alice").channel
    with pytest.raises(SnapshotError):
        fresh.apply_journal(alice.channel.journal_since(mark))


def test_a_head_of_another_mark_is_refused() -> None:
    alice = Peer("alice")
    head = alice.channel.head()
    alice.send()
    copy = Peer("alice").channel
    copy.apply_journal(alice.channel.journal_whole())
    with pytest.raises(SnapshotError):
        copy.restore_head(head)


def test_what_is_of_another_channel_or_profile_is_refused() -> None:
    alice = Peer("alice")
    alice.send()
    for channel_id, profile in (("other", "spec"), (CHANNEL, "js")):
        other = Channel(channel_id, profile, alice.settings, now_ms=NOW, seed=b"")  # type: ignore[arg-type]
        with pytest.raises(SnapshotError):
            other.apply_journal(alice.channel.journal_whole())
        with pytest.raises(SnapshotError):
            other.restore_head(alice.channel.head())


@settings(max_examples=60)
@given(position=st.integers(0, 400), value=st.integers(0, 255), cut=st.booleans())
def test_damaged_snapshots_are_refused_or_read_but_never_a_fault(
    position: int, value: int, cut: bool
) -> None:
    alice = Peer("alice")
    alice.send(message_id="m1")
    alice.receive(made("x2", "x1"))
    for data, takes in (
        (alice.channel.journal_whole(), Channel.apply_journal),
        (alice.channel.head(), Channel.restore_head),
    ):
        damaged = bytearray(data)
        damaged[position % len(data)] = value
        if cut:
            del damaged[position % len(data) :]
        try:
            takes(Peer("alice").channel, bytes(damaged))
        except SnapshotError as error:
            assert error.code.startswith("sds.")


def test_a_journal_that_nobody_takes_is_bounded_and_written_anew() -> None:
    alice = Peer("alice", max_journal_records=10)
    for number in range(30):
        alice.send(b"%d" % number)
    with pytest.raises(JournalForgottenError):
        alice.channel.journal_since(0)
    copy = alice.restarted(whole=True)
    assert copy.channel.status() == alice.channel.status()


def test_what_is_kept_elsewhere_need_not_be_held() -> None:
    alice = Peer("alice")
    alice.send()
    mark = alice.channel.journal_mark
    alice.send()
    alice.channel.journal_kept(mark)
    assert alice.channel.journal_since(mark)
    with pytest.raises(JournalForgottenError):
        alice.channel.journal_since(0)


def test_a_step_adds_to_the_journal_what_it_changed_and_no_more() -> None:
    alice = Peer("alice", "js", bloom_capacity=10_000)
    for number in range(500):
        alice.receive(made(f"m{number:04}", lamport=NOW + number, profile="js"))
    mark = alice.channel.journal_mark
    alice.receive(made("m9999", lamport=NOW + 999, profile="js"))
    assert len(alice.channel.journal_since(mark)) < 200
    assert len(alice.channel.head()) < 2_000


def test_a_message_sent_again_after_a_restart_has_the_same_bytes() -> None:
    alice = Peer("alice", bloom_capacity=30)
    wires = [alice.send(b"%d" % number) for number in range(100)]
    copy = alice.restarted(whole=True)
    assert [outbound.wire for outbound in copy.tick(NOW + 30_000, "outgoing").send] == wires


def test_the_lamport_timestamp_never_goes_back_over_a_restart() -> None:
    alice = Peer("alice")
    alice.tick(NOW)
    alice.send(now_ms=NOW + 50_000)
    copy = alice.restarted(whole=True)
    assert copy.channel.status().lamport_timestamp == NOW + 50_000
