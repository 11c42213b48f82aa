"""Sessions that the dialler of a link begins by itself: about what, when again, and when it gives up."""

from __future__ import annotations

import pytest

from culm_models.p2panda.wire import codec
from culm_models.p2panda.wire.messages import Announce, SyncRequest
from tests.support.logs import OTHER_SCHEMA, SCHEMA
from tests.support.p2panda_peers import BOTH, HIGH, LOW, NOW, connect, make_peer, said, settle


def test_the_dialler_begins_a_session_about_what_both_announce() -> None:
    dialler = make_peer(LOW, auto_sync=True)
    listener = make_peer(HIGH, schema_ids=(SCHEMA, "blob_v1"), auto_sync=True)
    connect(dialler, listener)
    assert [(s.local, s.schema_ids) for s in dialler.sessions(HIGH)] == [(True, (SCHEMA,))]
    assert [s.local for s in listener.sessions(LOW)] == [False]


@pytest.mark.parametrize("who", ["dialler", "listener"])
def test_a_changed_announcement_begins_a_session_about_what_is_new(who: str) -> None:
    dialler = make_peer(LOW, schema_ids=BOTH if who == "listener" else [SCHEMA], auto_sync=True)
    listener = make_peer(HIGH, schema_ids=BOTH if who == "dialler" else [SCHEMA])
    connect(dialler, listener)
    changed = dialler if who == "dialler" else listener
    changed.announce(BOTH, NOW + 1)
    settle(dialler, listener)
    assert {s.schema_ids for s in dialler.sessions(HIGH)} == {(SCHEMA,), (OTHER_SCHEMA,)}


def test_without_live_mode_sessions_begin_again_after_a_while() -> None:
    dialler = make_peer(LOW, auto_sync=True, live_mode=False, sync_interval_ms=1_000)
    listener = make_peer(HIGH)
    connect(dialler, listener)
    assert dialler.counts["session_done"] == 1
    dialler.tick(NOW + 999)
    assert dialler.counts["session_started"] == 1
    dialler.tick(NOW + 1_000)
    assert dialler.counts["session_started"] == 2


def test_a_request_that_the_remote_cannot_take_any_more_is_given_up() -> None:
    peer = make_peer(LOW, auto_sync=True)
    peer.connect(HIGH, NOW, dialled=True)
    said(peer, HIGH)
    for timestamp, wanted in ((1, BOTH), (2, (SCHEMA,))):
        peer.receive(HIGH, codec.encode(Announce(1, timestamp, wanted)), NOW)
        assert said(peer, HIGH) == [SyncRequest(timestamp - 1, 0, wanted)]
    assert [s.schema_ids for s in peer.sessions(HIGH)] == [(SCHEMA,)]
