"""What does not fit one `Have`: set reconciliation, sessions about fewer schemas, or a visible failure."""

from __future__ import annotations

from typing import Any

import pytest

from culm_models.p2panda.operations.identifiers import normalise
from culm_models.p2panda.peer import Peer
from culm_models.p2panda.sessions import requests
from culm_models.p2panda.store import MemoryLogStore
from culm_models.p2panda.wire import codec
from culm_models.p2panda.wire.messages import Announce, Have, Offer, SyncDone, SyncRequest, offer_marker
from tests.support.p2panda.logs import OTHER_SCHEMA, SCHEMA, author, make_log
from tests.support.p2panda.peers import (
    BOTH,
    HIGH,
    LOW,
    NOW,
    codes,
    connect,
    connect_to,
    heights,
    make_peer,
    said,
    settle,
)

THIRD = "blob_v1"
ALL = (THIRD, *BOTH)
MOST = 600
LOGS = {
    schema: [make_log(author(f"{schema[:5]} {number}"), index, 1, schema_id=schema) for number in range(6)]
    for index, schema in enumerate(ALL)
}
EVERYTHING = [log for logs in LOGS.values() for log in logs]
# Nine of these heights do not fit.
CROWDED = [make_log(author(f"crowd {number}"), 9, 1, schema_id=SCHEMA) for number in range(9)]


def store_of(*logs: Any) -> MemoryLogStore:
    store = MemoryLogStore()
    for log in logs:
        store.append(log)
    return store


def make(peer_id: bytes, logs: Any, **settings: Any) -> Peer:
    return make_peer(peer_id, logs, ALL, max_message_bytes=MOST, **settings)


def test_schemas_are_put_together_as_far_as_they_fit() -> None:
    store = store_of(*EVERYTHING)
    assert requests.split(store, ALL, 10_000).parts == (ALL,)
    assert requests.split(store, ALL, 1_000).parts == (ALL[:2], ALL[2:])
    assert requests.split(store, ALL, MOST).parts == tuple((schema,) for schema in ALL)
    split = requests.split(store_of(*CROWDED, *LOGS[THIRD]), ALL, MOST)
    assert split.parts == ((THIRD, OTHER_SCHEMA) if OTHER_SCHEMA < SCHEMA else (THIRD,), *split.parts[1:])
    assert split.too_large == (SCHEMA,)
    assert SCHEMA not in [schema for part in split.parts for schema in part]


@pytest.mark.parametrize("who", ["initiator", "responder"])
@pytest.mark.parametrize("offered", [True, False])
def test_nothing_is_told_in_part_and_all_is_replicated(who: str, offered: bool) -> None:
    full = make(LOW, EVERYTHING, announce_offers=offered)
    other = make(HIGH, [log for logs in LOGS.values() for log in logs[:3]], announce_offers=offered)
    connect(full, other)
    for peer in (full, other):
        peer.take_events()
    if who == "initiator":
        assert full.sync(HIGH, 0, ALL, NOW) == 0
    else:
        assert other.sync(LOW, 0, ALL, NOW) == 0
    settle(full, other)
    assert heights(full) == heights(other)
    assert full.counts["duplicate"] == other.counts["duplicate"] == 0
    sessions = {(session.mode, session.schema_ids) for session in full.sessions(HIGH)}
    assert sessions == ({(1, ALL)} if offered else {(0, (schema,)) for schema in ALL})


def test_a_plain_remote_is_told_that_its_request_is_not_served() -> None:
    peer = make(LOW, EVERYTHING)
    connect_to(peer, HIGH)
    peer.receive(HIGH, codec.encode(SyncRequest(0, 0, ALL)), NOW)
    refusal, *requests = said(peer, HIGH)
    assert refusal == SyncDone(0, False)
    assert requests == [SyncRequest(number, 0, (schema,)) for number, schema in enumerate(ALL, 1)]
    assert codes(peer.take_events()) == ["p2panda.session.have_too_large"]


def test_a_single_schema_that_does_not_fit_is_a_failure_that_says_what_to_do() -> None:
    peer = make(LOW, [*CROWDED, *LOGS[THIRD]])
    connect_to(peer, HIGH)
    offer = offer_marker(Offer(frozenset((0,)), frozenset()))
    peer.receive(HIGH, codec.encode(Announce(1, 1, normalise((*ALL, offer)))), NOW)
    peer.take_events()
    assert peer.sync(HIGH, 0, [SCHEMA], NOW) is None
    (event,) = peer.take_events()
    assert event.code == "p2panda.session.have_too_large"  # type: ignore[attr-defined]
    assert "set reconciliation" in event.message  # type: ignore[attr-defined]
    assert said(peer, HIGH) == []
    # The others are served.
    assert peer.sync(HIGH, 0, [SCHEMA, THIRD], NOW) == 0
    assert said(peer, HIGH) == [SyncRequest(0, 0, (THIRD,))]


def test_set_reconciliation_is_tried_before_that_with_a_remote_that_offers_nothing() -> None:
    peer = make(LOW, [*CROWDED, *LOGS[THIRD]], session_timeout_ms=1_000)
    connect_to(peer, HIGH)
    assert peer.sync(HIGH, 0, [SCHEMA, THIRD], NOW) == 0
    asked = [message for message in said(peer, HIGH) if isinstance(message, SyncRequest)]
    assert asked == [SyncRequest(0, 0, (THIRD,)), SyncRequest(1, 1, (SCHEMA,))]
    peer.tick(NOW + 1_000)
    assert peer.sync(HIGH, 0, [SCHEMA], NOW + 1_000) is None
    assert codes(peer.take_events())[-1] == "p2panda.session.have_too_large"


@pytest.mark.parametrize("asks", ["full", "other"])
def test_two_that_offer_nothing_find_to_set_reconciliation(asks: str) -> None:
    full = make(LOW, CROWDED)
    other = make(HIGH, CROWDED[3:5])
    connect(full, other)
    first, second = (full, HIGH) if asks == "full" else (other, LOW)
    first.sync(second, 0, [SCHEMA], NOW)
    settle(full, other)
    assert heights(full) == heights(other)
    assert [session.mode for session in full.sessions(HIGH)] == [1]
    assert [session.mode for session in other.sessions(LOW)] == [1]


def test_a_have_that_has_grown_too_large_since_ends_the_session() -> None:
    peer = make(LOW, CROWDED[:8])
    connect_to(peer, HIGH)
    assert peer.sync(HIGH, 0, [SCHEMA], NOW) == 0
    said(peer, HIGH)
    peer.publish(CROWDED[8][0].entry_bytes, CROWDED[8][0].payload_bytes, NOW)
    peer.receive(HIGH, codec.encode(Have(0, ())), NOW)
    assert said(peer, HIGH) == [SyncDone(0, False)]
    assert codes(peer.take_events()) == ["p2panda.session.have_too_large"]


def test_more_parts_than_sessions_take_turns_without_live_mode() -> None:
    full = make(LOW, EVERYTHING, auto_sync=True, max_sessions_per_peer=2, sync_interval_ms=1_000)
    other = make(HIGH, (), max_sessions_per_peer=2)
    connect(full, other)
    for second in range(1, 20):
        full.tick(NOW + 1_500 * second)
        settle(full, other, now=NOW + 1_500 * second)
    assert heights(full) == heights(other)
    assert full.counts["live"] == 0
    assert full.counts["session_done"] >= 9


def test_a_failure_that_stays_is_tried_ever_more_rarely() -> None:
    full = make(LOW, CROWDED, auto_sync=True, modes=(0,), sync_interval_ms=1_000, max_backoff_ms=60_000)
    other = make(HIGH, ())
    full.announce([SCHEMA], NOW)
    connect(full, other)
    for second in range(600):
        full.tick(NOW + 1_000 * second)
        full.take_outgoing(HIGH)
    assert 8 <= full.counts["p2panda.session.have_too_large"] <= 30
