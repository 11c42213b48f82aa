"""One announcement a peer: timestamps that grow, late ones ignored, versions and sizes."""

from __future__ import annotations

from typing import Any

import pytest

from culm_models import cbor
from culm_models.p2panda.events import Announced
from culm_models.p2panda.operations.identifiers import SchemaIdError
from culm_models.p2panda.wire import codec
from culm_models.p2panda.wire.messages import Announce, SyncRequest
from tests.support.p2panda.logs import OTHER_SCHEMA, SCHEMA
from tests.support.p2panda.peers import (
    BOTH,
    HIGH,
    LOW,
    NOW,
    codes,
    connect,
    connect_to,
    kinds,
    make_peer,
    said,
    settle,
)


def test_the_announcement_goes_out_when_a_link_comes_up() -> None:
    peer = make_peer(LOW)
    peer.connect(HIGH, NOW, dialled=True)
    assert said(peer, HIGH) == [Announce(1, NOW, BOTH)]


def test_a_change_goes_out_to_every_remote() -> None:
    peer = make_peer(LOW)
    for remote in (HIGH, b"\x11" * 32):
        connect_to(peer, remote)
    peer.announce([SCHEMA], NOW + 5)
    for remote in (HIGH, b"\x11" * 32):
        assert said(peer, remote) == [Announce(1, NOW + 5, (SCHEMA,))]


@pytest.mark.parametrize(
    ("settings", "unit"), [({}, 1), ({"announce_seconds": True}, 1000), ({"compat": "aquadoggo"}, 1000)]
)
def test_timestamps_always_grow(settings: dict[str, Any], unit: int) -> None:
    peer = make_peer(LOW, **settings)
    stamps = []
    for now in (NOW, NOW, NOW - 50_000, NOW + 100_000):
        peer.announce(BOTH, now)
        assert peer.announcement is not None
        stamps.append(peer.announcement.timestamp)
    first = NOW // unit
    assert stamps == [first + 1, first + 2, first + 3, first + 100_000 // unit]


def test_an_unknown_schema_id_cannot_be_announced() -> None:
    with pytest.raises(SchemaIdError):
        make_peer(LOW).announce(["nonsense"], NOW)


def test_ignored_names_count_towards_the_size_of_an_announcement() -> None:
    peer = make_peer(LOW, max_announcement_bytes=200)
    connect_to(peer, HIGH)
    for size, timestamp in ((100, NOW), (200, NOW + 1)):
        peer.receive(HIGH, cbor.dumps([0, 1, timestamp, [SCHEMA, "?" * size]]), NOW)
    events = peer.take_events()
    assert kinds(events) == ["announced", "ignored"]
    assert codes(events) == ["p2panda.announcement.size"]


@pytest.mark.parametrize("late", [NOW, NOW - 1, 0])
def test_a_late_announcement_is_ignored(late: int) -> None:
    peer = make_peer(LOW)
    connect_to(peer, HIGH)
    peer.receive(HIGH, codec.encode(Announce(1, NOW, (SCHEMA,))), NOW)
    peer.receive(HIGH, codec.encode(Announce(1, late, (OTHER_SCHEMA,))), NOW)
    events = peer.take_events()
    assert kinds(events) == ["announced", "ignored"]
    assert codes(events) == ["p2panda.announcement.late"]
    announcement = peer.remote_announcement(HIGH)
    assert announcement is not None and announcement.schema_ids == (SCHEMA,)


def test_a_later_announcement_replaces_and_may_be_empty() -> None:
    peer = make_peer(LOW)
    connect_to(peer, HIGH)
    peer.receive(HIGH, codec.encode(Announce(1, 1, (SCHEMA,))), NOW)
    peer.receive(HIGH, codec.encode(Announce(1, 2, ())), NOW)
    announcement = peer.remote_announcement(HIGH)
    assert announcement == Announce(1, 2, ())


def test_the_event_holds_the_bytes_as_received() -> None:
    peer = make_peer(LOW)
    connect_to(peer, HIGH)
    # Not the shortest numbers, schema ids not sorted: still this remote's own bytes.
    names = b"\x82" + b"".join(
        b"\x78" + bytes((len(name),)) + name.encode() for name in (SCHEMA, OTHER_SCHEMA)
    )
    raw = b"\x84\x00\x18\x01\x05" + names
    peer.receive(HIGH, raw, NOW)
    event = peer.take_events()[0]
    assert isinstance(event, Announced)
    assert (event.raw, event.schema_ids, event.timestamp) == (raw, BOTH, 5)


def test_another_version_is_ignored() -> None:
    peer = make_peer(LOW)
    connect_to(peer, HIGH)
    peer.receive(HIGH, codec.encode(Announce(2, NOW, BOTH)), NOW)
    assert codes(peer.take_events()) == ["p2panda.announcement.version"]
    assert peer.remote_announcement(HIGH) is None


def test_more_schemas_than_are_taken_are_ignored() -> None:
    peer = make_peer(LOW, max_schema_ids=1)
    connect_to(peer, HIGH)
    peer.receive(HIGH, codec.encode(Announce(1, NOW, BOTH)), NOW)
    assert codes(peer.take_events()) == ["p2panda.announcement.size"]


def test_a_new_link_forgets_the_announcement() -> None:
    peer = make_peer(LOW)
    connect_to(peer, HIGH)
    peer.receive(HIGH, codec.encode(Announce(1, NOW, BOTH)), NOW)
    connect_to(peer, HIGH)
    assert peer.remote_announcement(HIGH) is None
    peer.receive(HIGH, codec.encode(Announce(1, 1, BOTH)), NOW)
    assert peer.remote_announcement(HIGH) is not None


# Sessions that the dialler of a link begins by itself: about what, when again, and when it gives up.


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
