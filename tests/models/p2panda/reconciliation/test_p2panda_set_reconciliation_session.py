"""Mode 1: sessions over range-based set reconciliation, from the request to live mode."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from culm_models.lifts import LIFTS
from culm_models.p2panda.events import EntryAccepted, Heights, PeerEvent, Reconciled
from culm_models.p2panda.operations.operation import CheckedOperation
from culm_models.p2panda.peer import Peer
from culm_models.p2panda.reconciliation import ranges
from culm_models.p2panda.sessions import remote_heights as ledger
from culm_models.p2panda.sessions.session import SessionState
from culm_models.testing.p2panda.logs import LogWriter
from tests.support.p2panda.logs import OTHER_SCHEMA, SCHEMA, author, make_log
from tests.support.p2panda.peers import (
    BOTH,
    HIGH,
    LOW,
    NOW,
    codes,
    connect,
    heights,
    make_peer,
    settle,
    state_of,
)

Log = list[CheckedOperation]

LOGS: list[Log] = [
    make_log(author(f"author {number}"), number % 3, 4, schema_id=(SCHEMA, OTHER_SCHEMA)[number % 2])
    for number in range(60)
]


def reconcile(first: Peer, second: Peer) -> tuple[list[PeerEvent], list[PeerEvent]]:
    """A session of mode 1 that `first` begins, from its request until nothing moves."""
    connect(first, second)
    for peer in (first, second):
        peer.take_events()
    assert first.sync(second.peer_id, 1, BOTH, NOW) == 0
    settle(first, second)
    return first.take_events(), second.take_events()


def parts(rng: random.Random, logs: list[Log]) -> list[Log]:
    """Beginnings of some of these logs."""
    return [log[: rng.randint(1, len(log))] for log in logs if rng.random() < 0.8]


OFFERED = pytest.mark.parametrize("offered", [True, False], ids=["offered", "plain"])


@OFFERED
@pytest.mark.parametrize("seed", range(30))
def test_both_come_to_hold_the_union(seed: int, offered: bool) -> None:
    rng = random.Random(seed)
    logs = LOGS[: rng.choice((1, 3, 10, 60))]
    peers = [
        make_peer(
            peer_id,
            parts(rng, logs),
            announce_offers=offered,
            rule=rng.choice(("even", "upstream")),
            payload_threshold=rng.choice((1, 2, 8, 16)),
            range_division=rng.choice((2, 4, 16)),
            lift=rng.choice(LIFTS).name,
        )
        for peer_id in (LOW, HIGH)
    ]
    rng.shuffle(peers)
    first, second = peers
    events = reconcile(first, second)
    assert heights(first) == heights(second)
    assert not codes([*events[0], *events[1]])
    assert state_of(first, second.peer_id) is state_of(second, first.peer_id) is SessionState.LIVE
    if offered:
        assert first.counts["duplicate"] == second.counts["duplicate"] == 0


@OFFERED
@pytest.mark.parametrize(
    ("first", "second", "entries"),
    [
        (LOGS[:0], LOGS[:0], 0),
        (LOGS[:9], LOGS[:0], 36),
        (LOGS[:0], LOGS[:9], 36),
        (LOGS, LOGS, 0),
        (LOGS[:30], LOGS[30:], 240),
        (LOGS[:31], LOGS[30:], 236),
    ],
)
def test_what_is_sent_is_what_was_lacking(
    first: list[Log], second: list[Log], entries: int, offered: bool
) -> None:
    low = make_peer(LOW, first, announce_offers=offered)
    high = make_peer(HIGH, second, announce_offers=offered)
    reconcile(low, high)
    assert heights(low) == heights(high)
    counts = low.counts + high.counts
    assert (counts["entry_accepted"], counts["duplicate"], counts["rejected"]) == (entries, 0, 0)


def test_progress_is_told_with_what_it_took() -> None:
    low = make_peer(LOW, LOGS[:50])
    high = make_peer(HIGH, LOGS[10:])
    progress = [
        [event for event in events if isinstance(event, Reconciled)] for events in reconcile(low, high)
    ]
    (here,), (there,) = progress
    assert here.differing_logs == there.differing_logs == 20
    # The echo of the last batch: a lower bound, one range, a terminal.
    for sender, receiver in ((here, there), (there, here)):
        assert sender.bytes_out > 1_000
        assert 0 <= sender.bytes_out - receiver.bytes_in <= 200
        assert 0 <= sender.messages_out - receiver.messages_in <= 3
        assert 3 <= sender.rounds <= 8


@pytest.mark.parametrize(("limit", "shown_heights"), [(1_000, 60), (5, 0)])
def test_heights_of_equal_logs_are_told_if_they_are_few(limit: int, shown_heights: int) -> None:
    low = make_peer(LOW, LOGS, max_equal_heights=limit)
    high = make_peer(HIGH, LOGS)
    events, _ = reconcile(low, high)
    shown = [height for event in events if isinstance(event, Heights) for height in event.log_heights]
    assert Counter(shown) == Counter(dict.fromkeys(heights(high)[:shown_heights], 1))


def test_heights_that_a_remote_shows_are_told() -> None:
    low = make_peer(LOW, LOGS[:4])
    high = make_peer(HIGH, [log[:2] for log in LOGS[:3]])
    events, _ = reconcile(low, high)
    shown = {height for event in events if isinstance(event, Heights) for height in event.log_heights}
    assert shown == {(*log[0].log, 2) for log in LOGS[:3]}


def modes(**settings: Any) -> list[int]:
    """The modes of the sessions that a peer begins by itself."""
    low = make_peer(LOW, LOGS[:5], auto_sync=True, announce_offers=True, modes=(1, 0), **settings)
    high = make_peer(HIGH, LOGS[3:9], announce_offers=True, **settings)
    connect(low, high)
    assert heights(low) == heights(high)
    return [session.mode for session in low.sessions(HIGH)]


def test_the_preferred_mode_is_taken_where_the_remote_offers_it() -> None:
    assert modes() == [1]
    assert modes(compat="aquadoggo", live_mode=False) == []


@pytest.fixture
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is sent whole is queued seven logs at a time."""
    monkeypatch.setattr(ranges, "SORTED_AT_ONCE", 7)
    monkeypatch.setattr(ledger, "_LOOK_UP", 7)


@pytest.mark.usefixtures("few_at_once")
@pytest.mark.parametrize("first", [True, False])
def test_very_many_logs_are_queued_a_few_at_a_time_in_the_same_order(first: bool) -> None:
    system = [make_log(author(f"s {n}"), 9, 1, schema_id="schema_definition_v1") for n in range(9)]
    joined = [[LogWriter(author(f"j {n}"), 8, SCHEMA).append(previous=(LOGS[0][0].hash,))] for n in range(9)]
    every = (*BOTH, "schema_definition_v1")
    full = make_peer(LOW, [*joined, *LOGS, *system], every)
    empty = make_peer(HIGH, (), every)
    connect(full, empty)
    asking, asked = (full, empty) if first else (empty, full)
    asking.sync(asked.peer_id, 1, every, NOW)
    longest = 0
    while not longest:
        for sender, receiver in ((asking, asked), (asked, asking)):
            if not any(session.rest for session in full.sessions(HIGH)):
                receiver.receive(sender.peer_id, sender.take_outgoing(receiver.peer_id), NOW)
        longest = len(full.outgoing(HIGH))
    assert longest <= 9
    assert state_of(full, HIGH) is SessionState.ESTABLISHED
    late = make_log(author("late"), 3, 1)[0]
    full.publish(late.entry_bytes, late.payload_bytes, NOW)
    settle(full, empty)
    assert heights(full) == heights(empty)
    assert state_of(full, HIGH) is state_of(empty, LOW) is SessionState.LIVE
    firsts = [
        (
            not event.checked.schema_id.startswith("schema_definition"),
            event.checked.facts.previous is not None,
        )
        for event in empty.take_events()
        if isinstance(event, EntryAccepted) and event.checked.entry.seq_num == 1
    ]
    # What was stored meanwhile comes last.
    assert len(firsts) == 79 and firsts[:-1] == sorted(firsts[:-1])
    assert empty.counts["duplicate"] == 0
