"""Live sessions that must not go on: about unannounced schemas, and with entries that are missing."""

from __future__ import annotations

from culm_models.p2panda.peer import Peer
from culm_models.p2panda.sessions.outbox import QueuedMessage
from culm_models.p2panda.sessions.session import SessionState
from culm_models.p2panda.wire.codec import encode
from culm_models.p2panda.wire.messages import EntryMessage
from tests.support.p2panda.logs import OTHER_SCHEMA, SCHEMA, author, make_log
from tests.support.p2panda.peers import (
    BOTH,
    HIGH,
    LOW,
    NOW,
    codes,
    connect,
    heights,
    kinds,
    make_peer,
    settle,
)

_STEP_MS = 1_000
_LATER_MS = 10_000


def live_schemas(peer: Peer, remote: bytes) -> set[str]:
    live = [session for session in peer.sessions(remote) if session.state is SessionState.LIVE]
    return {schema for session in live for schema in session.schemas}


def pass_time(*peers: Peer, now: int, until: int) -> None:
    """Ticks for all, and everything that they say to each other."""
    while now < until:
        now += _STEP_MS
        for peer in peers:
            peer.tick(now)
        settle(*peers, now=now)


def test_an_unannounced_schema_is_no_longer_delivered() -> None:
    log, other = make_log(author("a"), 0, 4), make_log(author("a"), 1, 4, schema_id=OTHER_SCHEMA)
    for narrows, dialler_narrows in ((LOW, True), (HIGH, False)):
        dialler, listener = make_peer(LOW, auto_sync=True), make_peer(HIGH, auto_sync=True)
        connect(dialler, listener)
        assert live_schemas(dialler, HIGH) == live_schemas(listener, LOW) == set(BOTH)
        reader, writer = (dialler, listener) if dialler_narrows else (listener, dialler)
        assert reader.peer_id == narrows
        reader.announce([SCHEMA], NOW + 1)
        settle(reader, writer)
        assert live_schemas(dialler, HIGH) == live_schemas(listener, LOW) == {SCHEMA}
        for entry in (*log, *other):
            writer.publish(entry.entry_bytes, entry.payload_bytes, NOW + 2)
        settle(reader, writer)
        assert heights(reader) == [(*log[0].log, 4)]
        reader.announce(BOTH, NOW + 3)
        settle(reader, writer)
        assert sorted(heights(reader)) == sorted(heights(writer))


def test_another_spelling_of_a_schema_takes_no_interest_back() -> None:
    dialler, listener = (
        make_peer(peer_id, schema_ids=["blob_v1"], auto_sync=True) for peer_id in (LOW, HIGH)
    )
    connect(dialler, listener)
    dialler.announce(["blob_v01"], NOW + 1)
    settle(dialler, listener)
    assert live_schemas(listener, LOW) == {"blob_v1"}
    assert [session.session_id for session in dialler.sessions(HIGH)] == [0], "the session goes on"


def test_a_schema_that_is_unannounced_during_a_catch_up_ends_where_live_mode_would_begin() -> None:
    dialler, listener = make_peer(LOW, auto_sync=True), make_peer(HIGH, auto_sync=True)
    dialler.connect(HIGH, NOW, dialled=True)
    listener.connect(LOW, NOW, dialled=False)
    dialler.receive(HIGH, listener.take_outgoing(LOW), NOW)
    listener.receive(LOW, dialler.take_outgoing(HIGH), NOW)
    (session,) = listener.sessions(LOW)
    assert session.state is SessionState.ESTABLISHED
    listener.announce([OTHER_SCHEMA], NOW + 1)
    settle(dialler, listener, now=NOW + 1)
    assert live_schemas(dialler, HIGH) == live_schemas(listener, LOW) == {OTHER_SCHEMA}


def test_entries_that_are_missing_in_live_mode_come_with_a_new_session() -> None:
    log = make_log(author("a"), 0, 6)
    dialler, listener = make_peer(LOW, [log[:2]], auto_sync=True), make_peer(HIGH, auto_sync=True)
    connect(dialler, listener)
    for entry in log[2:]:
        dialler.publish(entry.entry_bytes, entry.payload_bytes, NOW)
    first, *others = dialler.outgoing(HIGH)
    assert isinstance(first, QueuedMessage)
    dialler.outgoing(HIGH).popleft()
    dialler.outgoing(HIGH).clear()
    listener.receive(
        LOW, b"".join(message.data for message in others if isinstance(message, QueuedMessage)), NOW
    )
    assert codes(listener.take_events()).count("bamboo.backlink_unknown") == 3
    assert heights(listener) == [(*log[0].log, 2)]
    pass_time(dialler, listener, now=NOW, until=NOW + _LATER_MS)
    assert heights(listener) == [(*log[0].log, 6)]
    assert live_schemas(dialler, HIGH) == set(BOTH)


def test_what_follows_on_a_refused_entry_is_no_reason_for_a_new_session() -> None:
    log = make_log(author("a"), 0, 6)
    branch = make_log(author("a"), 0, 1, text="other", after=log[:2])
    dialler = make_peer(LOW, [log], auto_sync=True)
    listener = make_peer(HIGH, [log[:2], branch], auto_sync=True)
    connect(dialler, listener)
    refused = ["bamboo.backlink_mismatch", "bamboo.backlink_unknown", "bamboo.backlink_unknown"]
    assert codes(listener.take_events()) == refused
    pass_time(dialler, listener, now=NOW, until=NOW + _LATER_MS)
    assert [session.session_id for session in dialler.sessions(HIGH)] == [0]


def test_a_remote_that_always_skips_entries_is_asked_ever_more_rarely() -> None:
    log = make_log(author("a"), 0, 9)
    listener, remote = make_peer(HIGH, auto_sync=True), make_peer(LOW, auto_sync=True)
    connect(remote, listener)
    now = NOW
    for _ in range(600):
        now += _STEP_MS
        for session in listener.sessions(LOW):
            skipping = EntryMessage(session.session_id, log[5].entry_bytes, log[5].payload_bytes)
            listener.receive(LOW, encode(skipping), now)
        pass_time(remote, listener, now=now, until=now + _STEP_MS)
    assert 3 <= kinds(listener.take_events()).count("session_done") <= 9
