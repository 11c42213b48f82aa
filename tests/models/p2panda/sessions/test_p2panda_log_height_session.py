"""Log height mode: who sends what in which order, and which entries go out."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from culm_models.cbor import ItemScanner
from culm_models.lifts import ADD128, Item
from culm_models.p2panda.events import Heights
from culm_models.p2panda.operations.operation import check_entry
from culm_models.p2panda.peer import Peer
from culm_models.p2panda.reconciliation.ranges import EntryRange
from culm_models.p2panda.sessions.outbox import QueuedMessage
from culm_models.p2panda.sessions.remote_heights import RemoteHeights
from culm_models.p2panda.store import SyncRange
from culm_models.p2panda.wire import codec
from culm_models.p2panda.wire.messages import EntryMessage, Have, SyncDone, SyncRequest
from culm_models.reconciliation.messages import (
    Done,
    EmptyPayload,
    EmptySet,
    Fingerprint,
    LowerBound,
    Payload,
    ReconciliationMessage,
    Terminal,
)
from culm_models.testing.p2panda.logs import LogWriter
from tests.support.p2panda import vectors
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
    state_of,
)

ANNA = author("anna")
BEN = author("ben")


def test_the_course_of_a_session() -> None:
    initiator = make_peer(LOW, [make_log(ANNA, 0, 2)], live_mode=False)
    responder = make_peer(HIGH, [make_log(BEN, 0, 3)], live_mode=False)
    connect(initiator, responder)
    initiator.sync(HIGH, 0, [SCHEMA], NOW)
    course = []
    for _ in range(3):
        for sender, receiver in ((initiator, responder), (responder, initiator)):
            data = sender.take_outgoing(receiver.peer_id)
            receiver.receive(sender.peer_id, data, NOW)
            course.append([type(codec.decode(item)).__name__ for item in _cut(data)])
    assert course == [
        ["SyncRequest"],
        ["Have"],
        ["Have", "EntryMessage", "EntryMessage", "SyncDone"],
        ["EntryMessage", "EntryMessage", "EntryMessage", "SyncDone"],
        [],
        [],
    ]
    assert heights(initiator) == heights(responder)


def _cut(data: bytes) -> list[bytes]:
    return ItemScanner(10_000_000).feed(data)


@pytest.mark.parametrize(
    ("local", "remote", "expected"),
    [
        ({0: 5, 1: 2}, {0: 8, 1: 2}, []),
        ({0: 8, 1: 2}, {0: 5, 1: 2}, [(0, 6, 8)]),
        ({0: 5, 1: 2}, {}, [(0, 1, 5), (1, 1, 2)]),
        ({}, {0: 5}, []),
        ({0: 3}, {1: 3}, [(0, 1, 3)]),
    ],
)
def test_what_the_remote_lacks(
    local: dict[int, int], remote: dict[int, int], expected: list[tuple[int, int, int]]
) -> None:
    peer = make_peer(LOW, [make_log(ANNA, log_id, length) for log_id, length in local.items()])
    connect_to(peer, HIGH)
    key = ANNA.public_key
    shown = Have(0, tuple((key, log_id, height) for log_id, height in remote.items()))
    peer.receive(HIGH, codec.encode(SyncRequest(0, 0, (SCHEMA,))) + codec.encode(shown), NOW)
    have, *ranges, done = peer.outgoing(HIGH)
    assert isinstance(have, QueuedMessage) and isinstance(done, QueuedMessage)
    assert codec.decode(have.data) == Have(0, tuple((key, *log) for log in local.items()))
    assert ranges == [EntryRange(0, key, *part) for part in expected]
    assert codec.decode(done.data) == SyncDone(0, True)


def test_a_log_named_twice_counts_with_its_larger_height() -> None:
    peer = make_peer(LOW, [make_log(ANNA, 0, 4)])
    connect_to(peer, HIGH)
    shown = Have(0, ((ANNA.public_key, 0, 4), (ANNA.public_key, 0, 1)))
    peer.receive(HIGH, codec.encode(SyncRequest(0, 0, (SCHEMA,))) + codec.encode(shown), NOW)
    assert len(peer.outgoing(HIGH)) == 2


def test_only_logs_of_the_sessions_schemas_take_part() -> None:
    first = make_peer(LOW, [make_log(ANNA, 0, 2), make_log(ANNA, 1, 2, schema_id=OTHER_SCHEMA)])
    second = make_peer(HIGH)
    connect(first, second)
    second.sync(LOW, 0, [OTHER_SCHEMA], NOW)
    settle(first, second)
    assert heights(second) == [(ANNA.public_key, 1, 2)]


def test_system_schemas_go_first_and_creates_before_what_writes_to_them() -> None:
    created = LogWriter(max((ANNA, BEN), key=lambda pair: pair.public_key), 0, SCHEMA)
    created.append()
    joined = LogWriter(min((ANNA, BEN), key=lambda pair: pair.public_key), 0, SCHEMA)
    joined.append(previous=(created.entries[0].hash,))
    system = LogWriter(author("zoe"), 0, "schema_definition_v1")
    system.append({"name": "venue", "description": "d", "fields": ()})
    names = ("schema_definition_v1", SCHEMA)
    peer = make_peer(LOW, [created.entries, joined.entries, system.entries], schema_ids=names)
    connect_to(peer, HIGH)
    peer.receive(HIGH, codec.encode(SyncRequest(0, 0, names)) + codec.encode(Have(0, ())), NOW)
    ranges = [item for item in peer.outgoing(HIGH) if isinstance(item, EntryRange)]
    assert [part.public_key for part in ranges] == [
        system.key_pair.public_key,
        created.key_pair.public_key,
        joined.key_pair.public_key,
    ]


def responding(**settings: object) -> Peer:
    peer = make_peer(LOW, **settings)  # type: ignore[arg-type]
    connect_to(peer, HIGH)
    peer.receive(HIGH, codec.encode(SyncRequest(0, 0, BOTH)), NOW)
    peer.take_outgoing(HIGH)
    peer.take_events()
    return peer


def bring(peer: Peer, *messages: EntryMessage | Have | SyncDone) -> None:
    peer.receive(HIGH, b"".join(map(codec.encode, messages)), NOW)


def test_entries_are_taken_in_any_state_of_the_session() -> None:
    log = make_log(ANNA, 0, 3)
    first, second, third = (EntryMessage(0, e.entry_bytes, e.payload_bytes) for e in log)
    peer = responding()
    bring(peer, first)
    bring(peer, SyncDone(0, False), second)
    assert heights(peer) == [(ANNA.public_key, 0, 2)]
    bring(peer, Have(0, ()))
    assert said(peer, HIGH)
    bring(peer, third)
    assert codes(peer.take_events())[-1:] == ["p2panda.session.unknown"]
    assert heights(peer) == [(ANNA.public_key, 0, 2)]


def test_a_pending_initiator_takes_entries_before_the_have() -> None:
    log = make_log(ANNA, 0, 1)
    peer = make_peer(LOW)
    connect_to(peer, HIGH)
    peer.sync(HIGH, 0, [SCHEMA], NOW)
    bring(peer, EntryMessage(0, log[0].entry_bytes, log[0].payload_bytes))
    assert heights(peer) == [(ANNA.public_key, 0, 1)]


def test_sync_done_may_come_before_have() -> None:
    peer = responding()
    bring(peer, SyncDone(0, True))
    assert said(peer, HIGH) == []
    bring(peer, Have(0, ()))
    assert said(peer, HIGH) == [SyncDone(0, True)]
    assert state_of(peer, HIGH).value == "live"


def test_an_empty_responder_waits_for_the_have_before_it_is_done() -> None:
    peer = make_peer(LOW)
    connect_to(peer, HIGH)
    peer.receive(HIGH, codec.encode(SyncRequest(0, 0, BOTH)), NOW)
    assert said(peer, HIGH) == [Have(0, ())]


def test_a_second_have_is_ignored() -> None:
    peer = responding()
    bring(peer, Have(0, ()), Have(0, ()))
    assert said(peer, HIGH) == [SyncDone(0, True)]
    assert codes(peer.take_events()) == ["p2panda.session.have_repeated"]


def test_messages_for_no_session_are_ignored_and_counted() -> None:
    peer = responding()
    bring(peer, Have(3, ()), SyncDone(4, True), EntryMessage(5, b"", b""))
    assert codes(peer.take_events()) == ["p2panda.session.unknown"] * 3
    assert peer.counts["p2panda.session.unknown"] == 3


@pytest.mark.parametrize(
    "message",
    [
        EmptySet(0, True),
        LowerBound(0, (ANNA.public_key, 0, 0)),
        Payload(0, (ANNA.public_key, 0, 1), True, (ANNA.public_key, 0, 0)),
        EmptyPayload(0, (ANNA.public_key, 0, 0)),
        Done(0, (ANNA.public_key, 0, 0)),
        Fingerprint(0, bytes(24), (ANNA.public_key, 0, 0)),
        Terminal(0),
    ],
)
def test_messages_of_set_reconciliation_do_no_harm(message: ReconciliationMessage) -> None:
    peer = responding()
    peer.receive(HIGH, codec.encode(message), NOW)
    assert codes(peer.take_events()) == ["p2panda.session.unexpected_message"]
    bring(peer, Have(0, ()))
    assert said(peer, HIGH) == [SyncDone(0, True)]


def test_what_the_remote_shows_to_hold_is_told() -> None:
    log = make_log(ANNA, 0, 3)
    peer = responding(logs=[log[:2]])
    bring(peer, Have(0, ((ANNA.public_key, 0, 9), (BEN.public_key, 7, 1))))
    assert Heights(HIGH, ((ANNA.public_key, 0, 9),)) in peer.take_events()
    bring(peer, EntryMessage(0, log[2].entry_bytes, log[2].payload_bytes))
    assert peer.take_events()[-1] == Heights(HIGH, ((ANNA.public_key, 0, 3),))


@pytest.mark.parametrize("compat", ["spec", "aquadoggo"])
def test_the_logs_of_the_real_library_replicate(compat: str) -> None:
    rows = vectors.read("chains.json")["chains"]
    chains = [
        [check_entry(bytes.fromhex(e["entry"]), bytes.fromhex(e["operation"])) for e in chain["entries"]]
        for chain in rows
    ]
    names = sorted({chain[0].schema_id for chain in chains})
    rng = random.Random(1)
    first = make_peer(LOW, [chain[: rng.randint(1, len(chain))] for chain in chains], names, compat=compat)
    second = make_peer(
        HIGH, [chain[: rng.randint(1, len(chain))] for chain in chains[10:]], names, compat=compat
    )
    connect(first, second)
    second.sync(LOW, 0, names, NOW)
    settle(first, second)
    assert heights(first) == heights(second)
    assert not first.counts["rejected"] and not second.counts["rejected"]


# What a session of mode 1 keeps in its ledger: who lacks what.


KEY = b"\x05" * 32
ITEMS: list[Item] = [(KEY, log_id, 4) for log_id in range(10)]
HELD = SyncRange(ITEMS, ADD128)


def lacking(parts: Iterable[EntryRange]) -> list[tuple[int, int, int]]:
    return [(part.log_id, part.first_seq_num, part.last_seq_num) for part in parts]


def test_a_complete_range_tells_of_every_log_in_it() -> None:
    ledger = RemoteHeights(HELD, 0)
    ledger.show([(KEY, 1, 4), (KEY, 2, 1), (KEY, 3, 9), (KEY, 77, 5)])
    assert lacking(ledger.complete([(1, 4)])) == [(2, 2, 4), (4, 1, 4)]
    ledger.close_ranges()
    assert ledger.differing == 4
    assert sorted(ledger.take_heights()) == [(KEY, 1, 4), (KEY, 2, 1), (KEY, 3, 9)]


def test_silence_in_an_answer_is_judged_at_the_end() -> None:
    for silence_is_equal, sent in ((True, []), (False, [(1, 1, 4)])):
        ledger = RemoteHeights(HELD, 0)
        ledger.equal([(3, 8)])
        ledger.show([(KEY, 2, 0)])
        assert lacking(ledger.answered([(1, 2)])) == [(2, 1, 4)]
        assert ledger.close(silence_is_equal=silence_is_equal) == len(sent)
        assert lacking(ledger.never_mentioned()) == sent


def test_a_range_may_go_round_the_end() -> None:
    ledger = RemoteHeights(HELD, 0)
    ledger.equal([(8, 4)])
    assert ledger.close(silence_is_equal=True) == ledger.differing == 6
    assert lacking(ledger.never_mentioned()) == [(log_id, 1, 4) for log_id in range(2, 8)]
    assert ledger.equal_heights(4) == [ITEMS[0], ITEMS[1], ITEMS[8], ITEMS[9]]
    assert ledger.equal_heights(3) == []


def test_no_log_is_sent_twice() -> None:
    ledger = RemoteHeights(HELD, 0)
    assert len(ledger.complete([(0, 10)])) == 10
    ledger.show([(KEY, 3, 2)])
    assert ledger.complete([(0, 10)]) == ledger.answered([(2, 3)]) == []
    assert ledger.close(silence_is_equal=False) == 0
