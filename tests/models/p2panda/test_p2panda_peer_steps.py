"""The peer in steps, as a connector drives it: the same outcome as in one shot, with staging in between."""

from __future__ import annotations

import random

import pytest

from culm_models.errors import CulmError
from culm_models.p2panda.events import EntryRejected
from culm_models.p2panda.ingest import LogBusyError
from culm_models.p2panda.operations.operation import CheckedOperation, check_entry
from culm_models.p2panda.peer import Peer
from culm_models.p2panda.wire import codec
from culm_models.p2panda.wire.messages import EntryMessage, Have, Message, SyncDone, SyncRequest
from culm_models.testing.p2panda.liar import Liar
from culm_models.testing.p2panda.scenario import SCHEMAS, forked, written
from tests.support.p2panda.logs import OTHER_SCHEMA, SCHEMA, author, make_log, pairs
from tests.support.p2panda.peers import (
    BOTH,
    HIGH,
    LOW,
    MIDDLE,
    NOW,
    codes,
    connect_to,
    heights,
    kinds,
    make_peer,
    said,
)

ANNA = author("anna")


def session_with(peer: Peer, remote: bytes, *, live: bool = True) -> None:
    """An inbound session, caught up and live (or not yet)."""
    connect_to(peer, remote)
    messages: list[Message] = [SyncRequest(0, 0, BOTH), Have(0, ())]
    if live:
        messages.append(SyncDone(0, True))
    peer.receive(remote, b"".join(map(codec.encode, messages)), NOW)
    peer.take_outgoing(remote)
    peer.take_events()


def offer(peer: Peer, checked: CheckedOperation, remote: bytes = HIGH) -> bool:
    message = EntryMessage(0, checked.entry_bytes, checked.payload_bytes)
    return peer.apply_entry(remote, message, checked, NOW)


def check(message: EntryMessage) -> CheckedOperation | CulmError:
    try:
        return check_entry(message.entry, message.operation)
    except CulmError as error:
        return error


@pytest.mark.parametrize("seed", range(15))
def test_one_shot_and_steps_are_the_same(seed: int) -> None:
    """What the liar says is taken alike, event by event, by a peer driven either way."""
    entries = [*forked(), *written()[0]]
    noise = Liar(random.Random(seed), SCHEMAS, entries)
    noise.connected()
    wire = [noise.next_bytes() for _ in range(150)]
    one_shot, stepped = (make_peer(LOW, schema_ids=SCHEMAS) for _ in range(2))
    for peer in (one_shot, stepped):
        connect_to(peer, HIGH)
    for data in wire:
        one_shot.receive(HIGH, data, NOW)
        try:
            messages = stepped.decode(HIGH, data)
        except CulmError:
            break
        for message in messages:
            if not isinstance(message, EntryMessage):
                stepped.apply(HIGH, message, NOW)
                continue
            checked = check(message)
            if stepped.apply_entry(HIGH, message, checked, NOW):
                assert not isinstance(checked, CulmError)
                stepped.store.append([checked])
                stepped.stored([checked], HIGH, NOW)
    assert one_shot.take_events() == stepped.take_events()
    assert heights(one_shot) == heights(stepped)
    assert one_shot.take_outgoing(HIGH) == stepped.take_outgoing(HIGH)


def test_a_staged_entry_goes_on_only_when_it_is_stored() -> None:
    peer = make_peer(LOW)
    session_with(peer, HIGH)
    session_with(peer, MIDDLE)
    log = make_log(ANNA, 0, 3)
    assert [offer(peer, checked) for checked in log] == [True] * 3
    assert kinds(peer.take_events()) == ["entry_accepted"] * 3 + ["heights"]
    assert peer.staged_count == 3
    assert said(peer, MIDDLE) == []
    peer.store.append(log)
    peer.stored(log, HIGH, NOW)
    assert said(peer, MIDDLE) == [EntryMessage(0, *raw) for raw in pairs(log)]
    assert said(peer, HIGH) == []
    assert peer.staged_count == 0


def test_a_staged_entry_is_a_duplicate_for_other_remotes() -> None:
    peer = make_peer(LOW)
    session_with(peer, HIGH)
    session_with(peer, MIDDLE)
    log = make_log(ANNA, 0, 1)
    assert offer(peer, log[0], HIGH) and not offer(peer, log[0], MIDDLE)
    assert kinds(peer.take_events()) == ["entry_accepted", "duplicate", "heights", "heights"]


def test_discarded_entries_may_come_again() -> None:
    peer = make_peer(LOW)
    session_with(peer, HIGH)
    log = make_log(ANNA, 0, 2)
    assert offer(peer, log[0]) and offer(peer, log[1])
    peer.discard([log[0]], NOW)
    assert not offer(peer, log[1])
    assert codes(peer.take_events()) == ["bamboo.backlink_unknown"]
    assert offer(peer, log[0]) and offer(peer, log[1])


def test_what_others_stored_is_sent_to_every_live_session() -> None:
    peer = make_peer(LOW)
    session_with(peer, HIGH)
    log = make_log(ANNA, 0, 1)
    peer.store.append(log)
    peer.stored(log, None, NOW)
    assert said(peer, HIGH) == [EntryMessage(0, *pairs(log)[0])]


def test_a_refused_entry_is_told_with_its_bytes() -> None:
    peer = make_peer(LOW)
    session_with(peer, HIGH)
    (entry, operation) = pairs(make_log(ANNA, 0, 1))[0]
    damaged = entry[:-1] + bytes((entry[-1] ^ 1,))
    peer.receive(HIGH, codec.encode_entry_message(0, damaged, operation), NOW)
    (event,) = peer.take_events()
    assert isinstance(event, EntryRejected)
    assert (event.code, event.entry, event.operation) == ("bamboo.signature", damaged, operation)


def test_a_fork_is_told_with_the_hash_that_stays() -> None:
    log = make_log(ANNA, 0, 2)
    peer = make_peer(LOW, [log])
    session_with(peer, HIGH)
    branch = make_log(ANNA, 0, 1, text="other", after=log[:1])
    assert not offer(peer, branch[0])
    (event,) = peer.take_events()
    assert isinstance(event, EntryRejected)
    assert (event.code, event.held_hash) == ("bamboo.fork", log[1].hash)
    assert heights(peer) == [(*log[0].log, 2)]


def test_an_entry_of_another_schema_is_refused() -> None:
    peer = make_peer(LOW)
    connect_to(peer, HIGH)
    peer.receive(HIGH, codec.encode(SyncRequest(0, 0, (OTHER_SCHEMA,))), NOW)
    peer.take_events()
    assert not offer(peer, make_log(ANNA, 0, 1, schema_id=SCHEMA)[0])
    assert codes(peer.take_events()) == ["p2panda.session.schema"]


def test_publishing_takes_sound_entries_only_and_once() -> None:
    peer = make_peer(LOW)
    session_with(peer, HIGH)
    log = make_log(ANNA, 0, 2)
    with pytest.raises(CulmError) as caught:
        peer.publish(*pairs(log)[1], NOW)
    assert caught.value.code == "bamboo.backlink_unknown"
    for _ in range(2):
        assert peer.publish(*pairs(log)[0], NOW).hash == log[0].hash
    assert said(peer, HIGH) == [EntryMessage(0, *pairs(log)[0])]


def test_publishing_waits_for_what_is_staged_of_the_log() -> None:
    peer = make_peer(LOW)
    session_with(peer, HIGH)
    log = make_log(ANNA, 0, 2)
    assert offer(peer, log[0])
    with pytest.raises(LogBusyError):
        peer.publish(*pairs(log)[1], NOW)
    peer.store.append(log[:1])
    peer.stored(log[:1], HIGH, NOW)
    peer.publish(*pairs(log)[1], NOW)


def test_an_unreadable_stream_fails_the_link_until_it_is_made_anew() -> None:
    peer = make_peer(LOW)
    session_with(peer, HIGH)
    sound = codec.encode(SyncRequest(1, 0, (SCHEMA,)))
    peer.receive(HIGH, sound + b"\xff", NOW)
    assert codes(peer.take_events()) == ["p2panda.message.malformed"] * 3
    for data in (sound, b"\x00"):
        peer.receive(HIGH, data, NOW)
        assert codes(peer.take_events()) == ["p2panda.session.not_connected"]
    assert peer.sessions(HIGH) == () and said(peer, HIGH) == []
    assert peer.sync(HIGH, 0, [SCHEMA], NOW) is None
    peer.tick(NOW + 10**6)
    peer.announce(BOTH, NOW)
    assert said(peer, HIGH) == []
    connect_to(peer, HIGH)
    peer.receive(HIGH, sound, NOW)
    assert said(peer, HIGH) == [Have(1, ())]


def test_decoding_raises_again_until_the_link_is_made_anew() -> None:
    peer = make_peer(LOW)
    session_with(peer, HIGH)
    for _ in range(2):
        with pytest.raises(CulmError):
            peer.decode(HIGH, b"\xff")
    assert kinds(peer.take_events()) == ["link_failed", "session_failed"]
    assert peer.decode(MIDDLE, b"\xff") == []


def test_unknown_remotes_are_harmless() -> None:
    peer = make_peer(LOW)
    peer.receive(HIGH, b"\x00", NOW)
    peer.disconnect(HIGH, NOW)
    peer.stop_live(HIGH, 0, NOW)
    assert peer.sync(HIGH, 0, [SCHEMA], NOW) is None
    assert peer.take_outgoing(HIGH) == b""
    assert not offer(peer, make_log(ANNA, 0, 1)[0])


def test_events_are_bounded_and_losses_counted() -> None:
    peer = make_peer(LOW, max_events=5)
    connect_to(peer, HIGH)
    for _ in range(9):
        peer.receive(HIGH, codec.encode(SyncDone(0, True)), NOW)
    assert len(peer.take_events()) == 5
    assert peer.counts["p2panda.session.unknown"] == 9
