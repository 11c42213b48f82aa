"""Rules of sessions in both modes: several at a time, both at once, interests, shares, trying again."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from culm_models.p2panda.peer import Peer
from culm_models.p2panda.sessions.session import SessionState
from culm_models.p2panda.wire import codec
from culm_models.p2panda.wire.messages import Announce, SyncDone, SyncRequest
from culm_models.testing.p2panda.logs import LogWriter
from tests.support.p2panda.logs import OTHER_SCHEMA, SCHEMA, author, make_log
from tests.support.p2panda.peers import (
    BOTH,
    HIGH,
    LOW,
    MIDDLE,
    NOW,
    codes,
    connect,
    connect_to,
    heights,
    make_peer,
    said,
    settle,
    state_of,
)

ANNA = author("anna")
HERE = [make_log(author(f"here {number}"), number % 2, 3, schema_id=BOTH[number % 2]) for number in range(20)]
THERE = [
    make_log(author(f"there {number}"), number % 2, 2, schema_id=BOTH[number % 2]) for number in range(9)
]
MODES = pytest.mark.parametrize("mode", [0, 1])


def pair(**settings: Any) -> tuple[Peer, Peer]:
    """Two connected peers that hold different logs."""
    first = make_peer(LOW, [*HERE, *THERE[:3]], **settings)
    second = make_peer(HIGH, [*HERE[3:], *THERE], **settings)
    connect(first, second)
    return first, second


def states(peer: Peer, remote: bytes) -> list[tuple[int, int, SessionState]]:
    return [(session.session_id, session.mode, session.state) for session in peer.sessions(remote)]


# Several at a time, and both at once.


@pytest.mark.parametrize("modes", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_sessions_about_different_schemas_run_at_a_time(modes: tuple[int, int]) -> None:
    first, second = pair()
    for mode, schema in zip(modes, BOTH, strict=True):
        first.sync(HIGH, mode, [schema], NOW)
    settle(first, second)
    assert heights(first) == heights(second)
    expected = [(number, mode, SessionState.LIVE) for number, mode in enumerate(modes)]
    assert states(first, HIGH) == states(second, LOW) == expected


@pytest.mark.parametrize("ours", [0, 1])
@pytest.mark.parametrize("theirs", [0, 1])
@pytest.mark.parametrize("same", [True, False])
def test_both_may_begin_at_once(ours: int, theirs: int, same: bool) -> None:
    first, second = pair()
    first.sync(HIGH, ours, BOTH, NOW)
    second.sync(LOW, theirs, BOTH if same else [SCHEMA], NOW)
    settle(first, second)
    assert heights(first) == heights(second)
    assert states(first, HIGH) == states(second, LOW)
    # The higher peer's request stays, and what the lower one wanted beyond it is asked for again.
    sessions = [(session.mode, session.schema_ids) for session in second.sessions(LOW)]
    assert sessions == [(theirs, BOTH)] if same else sessions == [(theirs, (SCHEMA,)), (ours, BOTH)]
    assert not any(code.startswith("reconciliation") for code in first.counts + second.counts)


@MODES
def test_a_request_for_what_a_session_is_about_is_ignored(mode: int) -> None:
    first, second = pair()
    first.sync(HIGH, 1, BOTH, NOW)
    settle(first, second)
    first.receive(HIGH, codec.encode(SyncRequest(9, mode, BOTH)), NOW)
    assert said(first, HIGH) == []
    assert states(first, HIGH) == [(0, 1, SessionState.LIVE)]


# Interests.


@MODES
def test_an_interest_that_is_taken_back_ends_the_session_where_live_mode_would_begin(mode: int) -> None:
    first, second = pair()
    first.sync(HIGH, mode, BOTH, NOW)
    second.receive(LOW, first.take_outgoing(HIGH), NOW)
    second.announce([SCHEMA], NOW + 1)
    settle(first, second, now=NOW + 1)
    assert heights(first) == heights(second)
    assert first.counts["live"] + second.counts["live"] == 0
    assert states(first, HIGH) == states(second, LOW) == []
    assert not first.counts["session_failed"] and not second.counts["session_failed"]


@MODES
def test_a_request_outside_of_the_announcement_is_passed_over_whole(mode: int) -> None:
    first, second = pair()
    second.announce([SCHEMA], NOW + 1)
    second.take_outgoing(LOW)
    first.sync(HIGH, mode, BOTH, NOW)
    settle(first, second, now=NOW + 2)
    assert codes(second.take_events()) == ["p2panda.session.not_announced"]
    assert not second.sessions(LOW)


# Live mode.


@MODES
def test_what_is_stored_while_a_session_catches_up_is_sent_when_it_goes_live(mode: int) -> None:
    first, second = pair()
    first.sync(HIGH, mode, BOTH, NOW)
    for sender, receiver in ((first, second), (second, first)):
        receiver.receive(sender.peer_id, sender.take_outgoing(receiver.peer_id), NOW)
    for number, peer in enumerate((first, second)):
        new = LogWriter(author(f"late {number}"), 7, SCHEMA).append()
        peer.publish(new.entry_bytes, new.payload_bytes, NOW)
    settle(first, second)
    assert heights(first) == heights(second)
    assert first.counts["duplicate"] == second.counts["duplicate"] == 0


@MODES
def test_live_mode_is_left_and_begun_again(mode: int) -> None:
    first, second = pair(auto_sync=True, modes=(mode, 1 - mode), announce_offers=True, sync_interval_ms=1_000)
    writer = LogWriter(ANNA, 7, SCHEMA)
    for round_ in range(3):
        now = NOW + 10_000 * round_
        assert states(first, HIGH) == [(round_, mode, SessionState.LIVE)]
        new = writer.append()
        second.publish(new.entry_bytes, new.payload_bytes, now)
        settle(first, second, now=now)
        assert first.store.height(ANNA.public_key, 7) == writer.entries[-1].entry.seq_num
        (second if round_ % 2 else first).stop_live(LOW if round_ % 2 else HIGH, round_, now)
        missed = writer.append()
        second.publish(missed.entry_bytes, missed.payload_bytes, now)
        settle(first, second, now=now)
        assert states(first, HIGH) == states(second, LOW) == []
        first.tick(now + 1_000)
        settle(first, second, now=now + 1_000)
        assert heights(first) == heights(second)


# Ids, and remotes that vanish.


@MODES
def test_ids_start_again_after_idleness(mode: int) -> None:
    first, second = pair(live_mode=False, session_id_reset_ms=1_000)
    for wait, expected in ((0, 0), (10, 1), (999, 2), (1_000, 0)):
        now = NOW + 100_000 * (expected + 1) + wait if wait == 1_000 else NOW + wait
        assert first.sync(HIGH, mode, BOTH, now) == expected
        settle(first, second, now=now)


@pytest.mark.parametrize("answered", [True, False])
def test_a_remote_that_vanishes_in_mode_1_is_asked_in_mode_0_next(answered: bool) -> None:
    first = make_peer(LOW, HERE, auto_sync=True, modes=(1, 0), announce_offers=True, session_timeout_ms=1_000)
    second = make_peer(HIGH, THERE, modes=(1, 0), announce_offers=True)
    first.connect(HIGH, NOW, dialled=True)
    second.connect(LOW, NOW, dialled=False)
    first.receive(HIGH, second.take_outgoing(LOW), NOW)
    second.receive(LOW, first.take_outgoing(HIGH), NOW)
    assert [session.mode for session in first.sessions(HIGH)] == [1]
    if answered:
        first.receive(HIGH, second.take_outgoing(LOW)[:60], NOW)
        assert state_of(first, HIGH) is SessionState.ESTABLISHED
    first.tick(NOW + 1_000)
    assert codes(first.take_events()) == ["p2panda.session.timeout"]
    first.take_outgoing(HIGH)
    first.tick(NOW + 60_000)
    assert [session.mode for session in first.sessions(HIGH)] == [0]
    # Where that is not answered either it was not the mode.
    first.take_outgoing(HIGH)
    first.tick(NOW + 61_000)
    first.tick(NOW + 120_000)
    assert [session.mode for session in first.sessions(HIGH)] == [0 if answered else 1]


def test_a_refused_mode_1_is_followed_by_mode_0_at_once() -> None:
    first = make_peer(LOW, HERE, auto_sync=True, modes=(1, 0), lift="xor64")
    second = make_peer(HIGH, THERE, modes=(1, 0), lifts=("add128",))
    connect(first, second)
    # No offer was made, so that mode 0 is taken; who asks for mode 1 all the same falls back.
    assert [session.mode for session in first.sessions(HIGH)] == [0]
    first.stop_live(HIGH, 0, NOW)
    settle(first, second)
    first.sync(HIGH, 1, BOTH, NOW)
    settle(first, second)
    assert first.counts["p2panda.session.refused"] == second.counts["p2panda.session.lift"] == 1
    assert [session.mode for session in first.sessions(HIGH)] == [0]
    assert heights(first) == heights(second)


def test_a_lift_that_the_remote_takes_is_chosen_by_its_offer() -> None:
    first = make_peer(LOW, HERE, lift="xor64", announce_offers=True)
    second = make_peer(HIGH, THERE, lifts=("add128", "siphash128"), announce_offers=True)
    connect(first, second)
    first.sync(HIGH, 1, BOTH, NOW)
    settle(first, second)
    assert heights(first) == heights(second)
    assert not first.counts["session_failed"]


def test_a_remote_that_takes_nothing_does_not_keep_a_session_open_for_ever() -> None:
    peer = make_peer(LOW, HERE, session_timeout_ms=1_000, stall_timeout_ms=10_000)
    connect_to(peer, HIGH)
    peer.receive(HIGH, codec.encode(SyncRequest(0, 0, BOTH)), NOW)
    for now in range(NOW, NOW + 9_999, 500):
        peer.tick(now)
    assert state_of(peer, HIGH) is SessionState.ESTABLISHED
    peer.tick(NOW + 10_000)
    peer.tick(NOW + 11_000)
    assert codes(peer.take_events()) == ["p2panda.session.timeout"]


# Trying again, and shares.


def attempts(seed: int) -> list[int]:
    """When a peer asks a remote that never answers."""
    peer = Peer(LOW, make_peer(LOW).store, make_peer(LOW, auto_sync=True).settings, random_seed=seed)
    peer.announce(BOTH, NOW)
    peer.connect(HIGH, NOW, dialled=True)
    peer.receive(HIGH, codec.encode(Announce(1, 1, BOTH)), NOW)
    seconds = [0]
    peer.take_outgoing(HIGH)
    for second in range(3_600):
        before = peer.counts["session_started"]
        peer.tick(NOW + 1_000 * second)
        peer.take_outgoing(HIGH)
        if peer.counts["session_started"] > before:
            seconds.append(second)
    return seconds


def test_failures_in_a_row_are_waited_for_ever_longer_and_never_in_step() -> None:
    seeds = [attempts(seed) for seed in range(3)]
    assert seeds[0] != seeds[1] != seeds[2]
    assert attempts(1) == seeds[1]
    for seconds in seeds:
        # Without what a session takes to time out.
        pauses = [later - former - 60 for former, later in pairwise(seconds)]
        assert 2 <= pauses[0] <= 9
        assert 30 <= pauses[4] <= 121
        assert max(pauses) <= 451
        assert 8 <= len(seconds) <= 25


def test_a_success_makes_the_next_wait_short_again() -> None:
    first, second = pair(auto_sync=True, live_mode=False, sync_interval_ms=1_000, session_timeout_ms=1_000)
    now = NOW
    for _ in range(6):
        now += 100_000
        first.tick(now)
        first.take_outgoing(HIGH)
    assert first.counts["p2panda.session.timeout"] >= 2
    first.tick(now + 100_000)
    settle(first, second, now=now + 100_000)
    first.tick(now + 200_000)
    settle(first, second, now=now + 200_000)
    started = first.counts["session_started"]
    first.tick(now + 201_000)
    assert first.counts["session_started"] == started + 1


def test_no_remote_takes_the_places_of_others() -> None:
    peer = make_peer(LOW, max_sessions=4, schema_ids=(*BOTH, "blob_v1"))
    greedy, other, third = (bytes((number,)) * 32 for number in (7, 8, 9))
    for remote in (greedy, other, third):
        connect_to(peer, remote)
    wanted = [(SCHEMA,), (OTHER_SCHEMA,), ("blob_v1",)]
    for number, schemas in enumerate(wanted):
        peer.receive(greedy, codec.encode(SyncRequest(number, 0, schemas)), NOW)
    assert [len(peer.sessions(remote)) for remote in (greedy, other, third)] == [2, 0, 0]
    assert codes(peer.take_events()) == ["p2panda.session.too_many"]
    for remote in (other, third):
        peer.receive(remote, codec.encode(SyncRequest(0, 0, wanted[0])), NOW)
    assert [len(peer.sessions(remote)) for remote in (greedy, other, third)] == [2, 1, 1]
    connect_to(peer, MIDDLE)
    peer.receive(MIDDLE, codec.encode(SyncRequest(0, 0, wanted[0])), NOW)
    assert not peer.sessions(MIDDLE)
    # A session that is over makes room.
    peer.disconnect(greedy, NOW)
    peer.receive(MIDDLE, codec.encode(SyncRequest(1, 0, wanted[0])), NOW)
    assert len(peer.sessions(MIDDLE)) == 1


def test_live_sessions_take_nobodys_place() -> None:
    peer = make_peer(LOW, max_sessions=1)
    for number in range(2, 6):
        remote = make_peer(bytes((number,)) * 32)
        connect(remote, peer)
        remote.sync(LOW, 1, BOTH, NOW)
        settle(peer, remote)
        assert state_of(peer, remote.peer_id) is SessionState.LIVE


def test_a_refusal_of_log_height_mode_ends_the_request() -> None:
    first, _ = pair(announce_offers=True)
    first.sync(HIGH, 0, BOTH, NOW)
    first.receive(HIGH, codec.encode(SyncDone(0, False)), NOW)
    assert codes(first.take_events()) == ["p2panda.session.refused"]
    assert not first.sessions(HIGH)
