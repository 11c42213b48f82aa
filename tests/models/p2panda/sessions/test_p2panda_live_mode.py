"""Live mode: when it begins, what it carries, how it ends."""

from __future__ import annotations

import pytest

from culm_models.p2panda.peer import Peer
from culm_models.p2panda.reconciliation.ranges import EntryRange
from culm_models.p2panda.sessions.session import SessionState
from culm_models.p2panda.wire import codec
from culm_models.p2panda.wire.messages import EntryMessage, Have, Message, SyncDone, SyncRequest
from culm_models.testing.p2panda.logs import LogWriter
from tests.support.p2panda.logs import OTHER_SCHEMA, SCHEMA, author, make_log, pairs
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

ANNA = author("anna")


def hear(peer: Peer, *messages: Message) -> list[Message]:
    peer.receive(HIGH, b"".join(map(codec.encode, messages)), NOW)
    return said(peer, HIGH)


def live_peer(**settings: int) -> Peer:
    """A peer in live mode with a remote that the test plays."""
    peer = make_peer(LOW, **settings)  # type: ignore[arg-type]
    connect_to(peer, HIGH)
    hear(peer, SyncRequest(0, 0, BOTH), Have(0, ()), SyncDone(0, True))
    assert state_of(peer, HIGH) is SessionState.LIVE
    peer.take_events()
    return peer


@pytest.mark.parametrize("initiator", [True, False])
@pytest.mark.parametrize("done_first", [True, False])
@pytest.mark.parametrize("ours", [True, False])
@pytest.mark.parametrize("theirs", [True, False])
def test_both_sides_must_want_it(initiator: bool, done_first: bool, ours: bool, theirs: bool) -> None:
    peer = make_peer(LOW, live_mode=ours)
    connect_to(peer, HIGH)
    if initiator:
        peer.sync(HIGH, 0, [SCHEMA], NOW)
        said(peer, HIGH)
    else:
        hear(peer, SyncRequest(0, 0, (SCHEMA,)))
    messages: list[Message] = [Have(0, ()), SyncDone(0, theirs)]
    answer = hear(peer, *(reversed(messages) if done_first else messages))
    assert answer == [Have(0, ())] * initiator + [SyncDone(0, ours)]
    live = ours and theirs
    assert kinds(peer.take_events())[-1] == ("live" if live else "session_done")
    assert state_of(peer, HIGH) is (SessionState.LIVE if live else SessionState.CLOSED)
    assert len(peer.sessions(HIGH)) == live


def test_a_no_cannot_be_taken_back() -> None:
    peer = make_peer(LOW)
    connect_to(peer, HIGH)
    hear(peer, SyncRequest(0, 0, (SCHEMA,)), SyncDone(0, False), SyncDone(0, True), Have(0, ()))
    assert peer.sessions(HIGH) == ()


def test_the_p2panda_node_is_never_offered_live_mode() -> None:
    peer = make_peer(LOW, compat="aquadoggo")
    connect_to(peer, HIGH)
    assert hear(peer, SyncRequest(0, 0, (SCHEMA,)), Have(0, ()))[-1] == SyncDone(0, False)


def test_another_true_changes_nothing() -> None:
    peer = live_peer()
    assert hear(peer, SyncDone(0, True)) == []
    assert state_of(peer, HIGH) is SessionState.LIVE
    assert peer.take_events() == []


def test_a_single_false_of_the_remote_closes_and_is_not_answered() -> None:
    peer = live_peer()
    assert hear(peer, SyncDone(0, False)) == []
    assert kinds(peer.take_events()) == ["session_done"]
    assert hear(peer, SyncDone(0, False)) == []
    assert codes(peer.take_events()) == ["p2panda.session.unknown"]


def test_leaving_says_false_once_and_drops_what_still_comes() -> None:
    peer = live_peer()
    for _ in range(2):
        peer.stop_live(HIGH, 0, NOW)
    assert said(peer, HIGH) == [SyncDone(0, False)]
    entry = make_log(ANNA, 0, 1)[0]
    hear(peer, EntryMessage(0, entry.entry_bytes, entry.payload_bytes))
    assert heights(peer) == []
    assert peer.counts["p2panda.session.unknown"] == 1


def test_leaving_is_without_effect_before_live_mode() -> None:
    peer = make_peer(LOW)
    connect_to(peer, HIGH)
    hear(peer, SyncRequest(0, 0, (SCHEMA,)))
    peer.stop_live(HIGH, 0, NOW)
    assert said(peer, HIGH) == []
    assert state_of(peer, HIGH) is SessionState.ESTABLISHED


def test_both_leaving_at_once_comes_to_an_end() -> None:
    low, high = make_peer(LOW), make_peer(HIGH)
    connect(low, high)
    low.sync(HIGH, 0, [SCHEMA], NOW)
    settle(low, high)
    low.stop_live(HIGH, 0, NOW)
    high.stop_live(LOW, 0, NOW)
    settle(low, high)
    assert low.sessions(HIGH) == high.sessions(LOW) == ()


def test_a_new_entry_is_sent_at_once_and_only_where_it_concerns() -> None:
    peer = make_peer(LOW)
    for remote, schema in ((MIDDLE, SCHEMA), (HIGH, OTHER_SCHEMA)):
        connect_to(peer, remote)
        opening: list[Message] = [SyncRequest(0, 0, (schema,)), Have(0, ()), SyncDone(0, True)]
        peer.receive(remote, b"".join(map(codec.encode, opening)), NOW)
        peer.take_outgoing(remote)
    (raw,) = pairs(make_log(ANNA, 0, 1))
    peer.publish(*raw, NOW)
    assert said(peer, MIDDLE) == [EntryMessage(0, *raw)]
    assert said(peer, HIGH) == []


def test_an_entry_goes_on_to_others_but_never_back() -> None:
    hub = make_peer(MIDDLE)
    leaves = [make_peer(LOW, auto_sync=True), make_peer(HIGH, auto_sync=True)]
    for leaf in leaves:
        connect(leaf, hub)
    (raw,) = pairs(make_log(ANNA, 0, 1))
    leaves[0].publish(*raw, NOW)
    settle(hub, *leaves)
    assert heights(leaves[1]) == heights(hub) == [(ANNA.public_key, 0, 1)]
    assert not sum(peer.counts["duplicate"] for peer in (hub, *leaves))


def test_two_live_sessions_about_one_schema_carry_an_entry_once() -> None:
    peer = live_peer()
    hear(peer, SyncRequest(1, 0, (SCHEMA,)), Have(1, ()), SyncDone(1, True))
    (raw,) = pairs(make_log(ANNA, 0, 1))
    peer.publish(*raw, NOW)
    assert said(peer, HIGH) == [EntryMessage(0, *raw)]


def test_what_is_stored_between_the_plan_and_live_mode_is_sent_when_it_begins() -> None:
    log = make_log(ANNA, 0, 4)
    peer = make_peer(LOW, [log[:2]])
    connect_to(peer, HIGH)
    hear(peer, SyncRequest(0, 0, (SCHEMA,)), Have(0, ((ANNA.public_key, 0, 2),)))
    for raw in pairs(log[2:]):
        peer.publish(*raw, NOW)
    assert said(peer, HIGH) == []
    assert hear(peer, SyncDone(0, True)) == [EntryMessage(0, *raw) for raw in pairs(log[2:])]


def test_what_another_brought_too_is_told_of_again_and_takes_nothing_away() -> None:
    log = make_log(ANNA, 0, 4)
    peer = make_peer(LOW, [log[:1]])
    connect_to(peer, HIGH)
    hear(peer, SyncRequest(0, 0, (SCHEMA,)), Have(0, ((ANNA.public_key, 0, 1),)))
    for raw in pairs(log[1:]):
        peer.publish(*raw, NOW)
    # They came by another way first, and further; now what a remote brought of them is stored as well.
    peer.stored(log[1:3], None, NOW)
    assert hear(peer, SyncDone(0, True)) == [EntryMessage(0, *raw) for raw in pairs(log[1:])]


def test_what_is_stored_before_the_plan_is_part_of_it() -> None:
    log = make_log(ANNA, 0, 3)
    peer = make_peer(LOW, [log[:2]])
    connect_to(peer, HIGH)
    hear(peer, SyncRequest(0, 0, (SCHEMA,)))
    peer.publish(*pairs(log)[2], NOW)
    answer = hear(peer, Have(0, ((ANNA.public_key, 0, 2),)), SyncDone(0, True))
    assert answer == [EntryMessage(0, *pairs(log)[2]), SyncDone(0, True)]


def test_what_the_remote_brings_itself_is_not_sent_to_it_later() -> None:
    log = make_log(ANNA, 0, 4)
    peer = make_peer(LOW, [log[:2]])
    connect_to(peer, HIGH)
    hear(peer, SyncRequest(0, 0, (SCHEMA,)), Have(0, ((ANNA.public_key, 0, 2),)))
    for raw in pairs(log[2:]):
        peer.publish(*raw, NOW)
    entry = EntryMessage(0, *pairs(log)[2])
    assert hear(peer, entry, SyncDone(0, True)) == [EntryMessage(0, *pairs(log)[3])]


@pytest.mark.parametrize(("bound", "count"), [({"max_outgoing": 2}, 2), ({"max_outgoing_bytes": 1}, 1)])
def test_entries_for_a_remote_that_takes_slowly_wait_as_ranges(bound: dict[str, int], count: int) -> None:
    peer = live_peer(**bound)
    writer = LogWriter(ANNA, 0, SCHEMA)
    for _ in range(50):
        writer.append()
    for raw in pairs(writer.entries):
        peer.publish(*raw, NOW)
    outbox = peer.outgoing(HIGH)
    assert len(outbox) == count
    for _ in range(count):
        outbox.popleft()
    assert list(peer.outgoing(HIGH)) == [EntryRange(0, ANNA.public_key, 0, count + 1, 50)]
    peer.outgoing(HIGH).clear()
    raw = pairs([writer.append()])[0]
    peer.publish(*raw, NOW)
    assert said(peer, HIGH) == [EntryMessage(0, *raw)]
