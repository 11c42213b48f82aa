"""Which sessions begin: ids, duplicates, both at once, announcements, limits."""

from __future__ import annotations

from typing import Any

import pytest

from culm_models.p2panda.peer import Peer
from culm_models.p2panda.sessions.session import SessionState
from culm_models.p2panda.wire import codec
from culm_models.p2panda.wire.messages import Announce, Have, Message, SyncDone, SyncRequest
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
    kinds,
    make_peer,
    said,
    settle,
    state_of,
)


def played(peer_id: bytes = MIDDLE, remote: bytes = HIGH, **settings: Any) -> Peer:
    """A peer opposite to a remote that the test plays."""
    peer = make_peer(peer_id, **settings)
    connect_to(peer, remote)
    return peer


def hear(peer: Peer, remote: bytes, *messages: Message) -> list[Message]:
    """Let a peer receive messages; returns what it answers."""
    peer.receive(remote, b"".join(map(codec.encode, messages)), NOW)
    return said(peer, remote)


def test_ids_begin_at_0_and_count_on_whoever_asks() -> None:
    peer = played()
    assert peer.sync(HIGH, 0, [SCHEMA], NOW) == 0
    hear(peer, HIGH, SyncRequest(1, 0, (OTHER_SCHEMA,)))
    assert peer.sync(HIGH, 0, BOTH, NOW) == 2


def test_ids_count_on_after_sessions_have_ended() -> None:
    peer = played(live_mode=False)
    for expected in range(3):
        assert peer.sync(HIGH, 0, [SCHEMA], NOW) == expected
        hear(peer, HIGH, Have(expected, ()), SyncDone(expected, False))
        assert peer.sessions(HIGH) == ()


def test_ids_begin_anew_after_idleness_and_reconnection() -> None:
    peer = played(live_mode=False, session_id_reset_ms=1_000)
    peer.sync(HIGH, 0, [SCHEMA], NOW)
    hear(peer, HIGH, Have(0, ()), SyncDone(0, False))
    assert peer.sync(HIGH, 0, [SCHEMA], NOW + 999) == 1
    hear(peer, HIGH, Have(1, ()), SyncDone(1, False))
    assert peer.sync(HIGH, 0, [SCHEMA], NOW + 1_000) == 0
    connect_to(peer, HIGH)
    assert peer.sync(HIGH, 0, [SCHEMA], NOW) == 0


def test_ids_are_reused_from_0_as_the_p2panda_node_does() -> None:
    peer = played(compat="aquadoggo")
    for _ in range(3):
        assert peer.sync(HIGH, 0, [SCHEMA], NOW) == 0
        hear(peer, HIGH, Have(0, ()), SyncDone(0, False))


@pytest.mark.parametrize("begun", [(), (Have(0, ()),)])
def test_a_p2panda_node_that_lost_its_session_begins_anew_under_the_same_id(
    begun: tuple[Message, ...],
) -> None:
    log = make_log(author("a"), 0, 3)
    peer = make_peer(MIDDLE, [log], compat="aquadoggo")
    connect_to(peer, HIGH)
    have = Have(0, ((log[0].entry.public_key, 0, 3),))
    assert hear(peer, HIGH, SyncRequest(0, 0, (SCHEMA,))) == [have]
    hear(peer, HIGH, *begun)
    peer.take_events()
    assert hear(peer, HIGH, SyncRequest(0, 0, (SCHEMA,))) == [have]
    events = peer.take_events()
    assert kinds(events) == ["session_failed", "session_started"]
    assert codes(events) == ["p2panda.session.abandoned"]
    assert len(peer.sessions(HIGH)) == 1
    assert hear(peer, HIGH, Have(0, ()), SyncDone(0, False))[-1] == SyncDone(0, False)
    assert peer.sessions(HIGH) == ()


def test_the_highest_id_is_followed_by_a_free_one() -> None:
    peer = played()
    hear(peer, HIGH, SyncRequest(2**64 - 1, 0, (SCHEMA,)))
    assert peer.sync(HIGH, 0, [OTHER_SCHEMA], NOW) == 0


def test_a_request_is_answered_with_a_have_under_its_own_id() -> None:
    log = make_log(author("a"), 4, 3)
    peer = make_peer(LOW, [log])
    connect_to(peer, HIGH)
    answer = hear(peer, HIGH, SyncRequest(17, 0, (SCHEMA,)))
    assert answer == [Have(17, ((log[0].entry.public_key, 4, 3),))]
    assert kinds(peer.take_events()) == ["session_started"]


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (SyncRequest(0, 77, (SCHEMA,)), "p2panda.session.mode"),
        (SyncRequest(0, 0, ()), "p2panda.session.empty_set"),
        (SyncRequest(0, 0, ("blob_v1",)), "p2panda.session.not_announced"),
        (SyncRequest(0, 0, (SCHEMA, "blob_v1")), "p2panda.session.not_announced"),
    ],
)
def test_a_request_that_cannot_be_is_ignored_and_the_link_goes_on(request_: SyncRequest, code: str) -> None:
    peer = played()
    assert hear(peer, HIGH, request_) == []
    events = peer.take_events()
    assert (kinds(events), codes(events)) == (["ignored"], [code])
    assert len(hear(peer, HIGH, SyncRequest(0, 0, (SCHEMA,)))) == 1


def test_only_the_latest_announcement_counts() -> None:
    peer = played()
    peer.announce([OTHER_SCHEMA], NOW)
    said(peer, HIGH)
    assert hear(peer, HIGH, SyncRequest(0, 0, (SCHEMA,))) == []
    assert codes(peer.take_events()) == ["p2panda.session.not_announced"]


def test_a_peer_that_announces_nothing_takes_no_request() -> None:
    peer = make_peer(LOW, schema_ids=())
    connect_to(peer, HIGH)
    assert hear(peer, HIGH, SyncRequest(0, 0, (SCHEMA,))) == []


def test_a_request_outside_of_the_remotes_announcement_is_not_sent() -> None:
    peer = played()
    hear(peer, HIGH, Announce(1, 5, (SCHEMA,)))
    assert peer.sync(HIGH, 0, BOTH, NOW) is None
    assert peer.sync(HIGH, 0, [SCHEMA], NOW) == 0


@pytest.mark.parametrize("state", ["established", "live"])
@pytest.mark.parametrize(
    "again", [SyncRequest(0, 0, (SCHEMA,)), SyncRequest(0, 0, BOTH), SyncRequest(9, 0, (SCHEMA,))]
)
def test_a_repeated_request_is_ignored_without_harm_to_the_running_session(
    state: str, again: SyncRequest
) -> None:
    peer = played()
    hear(peer, HIGH, SyncRequest(0, 0, (SCHEMA,)))
    if state == "live":
        hear(peer, HIGH, Have(0, ()), SyncDone(0, True))
    peer.take_events()
    assert hear(peer, HIGH, again) == []
    assert codes(peer.take_events()) == ["p2panda.session.duplicate"]
    assert [session.session_id for session in peer.sessions(HIGH)] == [0]
    assert state_of(peer, HIGH).value == state


def test_our_own_wish_is_not_repeated() -> None:
    peer = played()
    assert peer.sync(HIGH, 0, [SCHEMA], NOW) == 0
    assert peer.sync(HIGH, 0, [SCHEMA], NOW) is None
    assert codes(peer.take_events()) == ["p2panda.session.duplicate"]


# Both at once: the peer with the lower id gives way.


@pytest.mark.parametrize("their_id", [0, 5])
def test_the_lower_peer_drops_its_pending_request_and_answers_under_the_other_id(
    their_id: int,
) -> None:
    peer = played(LOW)
    peer.sync(HIGH, 0, [SCHEMA], NOW)
    said(peer, HIGH)
    answer = hear(peer, HIGH, SyncRequest(their_id, 0, (SCHEMA,)))
    assert answer == [Have(their_id, ())]
    assert [(s.session_id, s.local) for s in peer.sessions(HIGH)] == [(their_id, False)]


@pytest.mark.parametrize("their_id", [0, 5])
def test_the_higher_peer_ignores_the_request_and_keeps_its_own(their_id: int) -> None:
    peer = played(HIGH, LOW)
    peer.sync(LOW, 0, [SCHEMA], NOW)
    said(peer, LOW)
    assert hear(peer, LOW, SyncRequest(their_id, 0, (SCHEMA,))) == []
    assert [(s.session_id, s.local) for s in peer.sessions(LOW)] == [(0, True)]


def test_a_dropped_request_about_other_schemas_is_made_again_under_a_new_id() -> None:
    peer = played(LOW)
    peer.sync(HIGH, 0, [SCHEMA], NOW)
    said(peer, HIGH)
    answer = hear(peer, HIGH, SyncRequest(0, 0, (OTHER_SCHEMA,)))
    assert answer == [Have(0, ()), SyncRequest(1, 0, (SCHEMA,))]


def test_one_request_may_displace_two_of_ours() -> None:
    peer = played(LOW)
    peer.sync(HIGH, 0, [SCHEMA], NOW)
    peer.sync(HIGH, 0, [OTHER_SCHEMA], NOW)
    said(peer, HIGH)
    answer = hear(peer, HIGH, SyncRequest(0, 0, (OTHER_SCHEMA,)))
    assert answer == [Have(0, ()), SyncRequest(2, 0, (SCHEMA,))] or answer == [
        Have(0, ()),
        SyncRequest(1, 0, (SCHEMA,)),
    ]
    assert len({s.schema_ids for s in peer.sessions(HIGH)}) == 2


def test_a_session_that_is_established_does_not_give_way() -> None:
    peer = played(LOW)
    peer.sync(HIGH, 0, [SCHEMA], NOW)
    hear(peer, HIGH, Have(0, ()))
    assert hear(peer, HIGH, SyncRequest(0, 0, (SCHEMA,))) == []
    assert codes(peer.take_events()) == ["p2panda.session.duplicate"]


@pytest.mark.parametrize(
    ("low_wants", "high_wants"), [((SCHEMA,), (SCHEMA,)), ((SCHEMA,), BOTH), (BOTH, (OTHER_SCHEMA,))]
)
def test_both_at_once_ends_with_every_wish_fulfilled(
    low_wants: tuple[str, ...], high_wants: tuple[str, ...]
) -> None:
    low = make_peer(LOW, [make_log(author("a"), 0, 3)])
    high = make_peer(HIGH, [make_log(author("b"), 0, 4, schema_id=OTHER_SCHEMA)])
    connect(low, high)
    assert low.sync(HIGH, 0, low_wants, NOW) == high.sync(LOW, 0, high_wants, NOW) == 0
    settle(low, high)
    for peer, other in ((low, HIGH), (high, LOW)):
        live = {s.schema_ids for s in peer.sessions(other) if s.state is SessionState.LIVE}
        assert live == {low_wants, high_wants}
        assert len(peer.sessions(other)) == len(live)
    if set(low_wants) | set(high_wants) == set(BOTH):
        assert heights(low) == heights(high)


# Limits.


def test_sessions_of_a_remote_are_limited() -> None:
    names = ("blob_v1", "blob_piece_v1", SCHEMA)
    peer = make_peer(LOW, schema_ids=names, max_sessions_per_peer=2)
    connect_to(peer, HIGH)
    for number, name in enumerate(names[:2]):
        hear(peer, HIGH, SyncRequest(number, 0, (name,)))
    peer.take_events()
    assert hear(peer, HIGH, SyncRequest(2, 0, (SCHEMA,))) == []
    assert codes(peer.take_events()) == ["p2panda.session.too_many"]
    assert peer.sync(HIGH, 0, [SCHEMA], NOW) is None


def test_a_remote_that_does_not_read_cannot_make_the_queue_grow() -> None:
    peer = make_peer(LOW, [make_log(author("a"), number, 1) for number in range(20)], max_sessions_per_peer=2)
    connect_to(peer, HIGH)
    greedy = b"".join(
        codec.encode(message)
        for number in range(500)
        for message in (SyncRequest(number, 0, (SCHEMA,)), Have(number, ()), SyncDone(number, False))
    )
    peer.receive(HIGH, greedy, NOW)
    assert peer.counts["session_started"] == 2
    assert len(peer.outgoing(HIGH)) == 2 * (1 + 20 + 1)
    peer.take_outgoing(HIGH)
    assert hear(peer, HIGH, SyncRequest(1000, 0, (SCHEMA,)))


def test_a_request_with_too_many_schemas_is_ignored() -> None:
    peer = played(max_schema_ids=1)
    assert hear(peer, HIGH, SyncRequest(0, 0, BOTH)) == []
    assert codes(peer.take_events()) == ["p2panda.session.too_many_schemas"]


# Time, and beginning by itself.


@pytest.mark.parametrize("local", [True, False])
def test_a_session_in_which_nothing_happens_fails(local: bool) -> None:
    peer = played(session_timeout_ms=1_000)
    if local:
        peer.sync(HIGH, 0, [SCHEMA], NOW)
        said(peer, HIGH)
    else:
        hear(peer, HIGH, SyncRequest(0, 0, (SCHEMA,)))
    peer.tick(NOW + 999)
    assert len(peer.sessions(HIGH)) == 1
    peer.tick(NOW + 1_000)
    assert peer.sessions(HIGH) == ()
    assert codes(peer.take_events()) == ["p2panda.session.timeout"]


def test_a_live_session_may_be_quiet_for_ever() -> None:
    peer = played()
    hear(peer, HIGH, SyncRequest(0, 0, (SCHEMA,)), Have(0, ()), SyncDone(0, True))
    peer.tick(NOW + 10**9)
    assert state_of(peer, HIGH) is SessionState.LIVE


def test_a_lost_link_ends_its_sessions() -> None:
    peer = played()
    hear(peer, HIGH, SyncRequest(0, 0, (SCHEMA,)))
    peer.take_events()
    peer.disconnect(HIGH, NOW)
    assert codes(peer.take_events()) == ["p2panda.session.disconnected"]
    assert peer.remotes == ()
