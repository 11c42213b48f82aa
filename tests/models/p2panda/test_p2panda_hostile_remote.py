"""Whatever a remote sends: nothing raises, nothing grows without bound, other remotes are served."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.p2panda.wire import codec
from culm_models.p2panda.wire.messages import Have, SyncDone, SyncRequest
from culm_models.testing.p2panda.liar import Liar
from culm_models.testing.p2panda.scenario import SCHEMAS, check_contiguous, forked, written
from tests.support.p2panda_peers import HIGH, LOW, MIDDLE, NOW, connect, connect_to, make_peer, said, settle


@given(st.lists(st.binary(min_size=1, max_size=80), max_size=10))
def test_noise(pieces: list[bytes]) -> None:
    peer = make_peer(LOW)
    connect_to(peer, HIGH)
    for piece in pieces:
        peer.receive(HIGH, piece, NOW)
    peer.tick(NOW + 1)


@pytest.mark.parametrize("seed", range(25))
def test_messages_in_any_order(seed: int) -> None:
    rng = random.Random(seed)
    peer = make_peer(LOW, schema_ids=SCHEMAS, session_timeout_ms=50, auto_sync=True)
    peer.connect(HIGH, NOW, dialled=rng.random() < 0.5)
    liar = Liar(rng, SCHEMAS, [*forked(), *(checked for log in written() for checked in log)])
    liar.connected()
    friend = make_peer(MIDDLE, schema_ids=SCHEMAS, auto_sync=True)
    connect(friend, peer)
    for step in range(400):
        now = NOW + step
        peer.receive(HIGH, liar.say(), now)
        if rng.random() < 0.1:
            peer.tick(now)
            peer.take_outgoing(HIGH)
        if not peer.remotes or (peer.counts["link_failed"] and rng.random() < 0.2):
            peer.connect(HIGH, now, dialled=True)
            liar.connected()
        assert len(peer.sessions(HIGH)) <= peer.settings.max_sessions_per_peer
    settle(peer, friend)
    check_contiguous(peer.store, SCHEMAS)
    assert peer.store.log_heights(SCHEMAS) == friend.store.log_heights(SCHEMAS)
    assert peer.staged_count == 0


def test_a_remote_that_breaks_its_stream_harms_only_itself() -> None:
    peer = make_peer(LOW, schema_ids=SCHEMAS)
    for remote in (HIGH, MIDDLE):
        connect_to(peer, remote)
        peer.receive(remote, codec.encode(SyncRequest(0, 0, SCHEMAS)), NOW)
        said(peer, remote)
    peer.receive(HIGH, b"\xff", NOW)
    peer.receive(MIDDLE, codec.encode(Have(0, ())), NOW)
    assert said(peer, MIDDLE) == [SyncDone(0, True)]


def test_a_huge_claim_takes_no_memory() -> None:
    peer = make_peer(LOW, max_message_bytes=10_000)
    connect_to(peer, HIGH)
    peer.receive(HIGH, bytes.fromhex("830a009a00ffffff"), NOW)
    assert peer.counts["p2panda.message.too_large"] == 1
