"""What the state of a connection may grow to: a peer that tries to make it grow comes to a bound."""

from __future__ import annotations

import tracemalloc
from itertools import count

import pytest

from culm_models.bamboo_p2p import negotiation, reactions
from culm_models.bamboo_p2p.peer import NewEntry
from culm_models.bamboo_p2p.requests import request, request_table
from culm_models.bamboo_p2p.requests.proposals import RequestedRange
from culm_models.bamboo_p2p.requests.sequence import SKIPPED_RUNS_MAX, PassedPieces, Sequence
from culm_models.bamboo_p2p.settings import BambooSettings, Policy
from culm_models.bamboo_p2p.wire.data import encode_data
from culm_models.bamboo_p2p.wire.messages import (
    Cancel,
    CancelCode,
    Cancelled,
    Eagerness,
    Grant,
    Notify,
    Propose,
    Skip,
    SkipReason,
    Switch,
)
from tests.models.bamboo_p2p.hand_made import HandMade, proposal
from tests.models.bamboo_p2p.logs import LOG, Pair, make_log

NOTIFIES = BambooSettings(policy=Policy(eagerness=Eagerness.NOTIFY))
LACKS = encode_data(Skip(SkipReason.UNAVAILABLE))


def say(made: HandMade, data: bytes) -> None:
    """Data that the test does not keep, so that what is measured is the real end's."""
    made.end.receive_all_data(data, 0)
    made.peer.settle()
    made.end.take_events()
    assert made.code is None


@pytest.mark.parametrize(
    "asked", [proposal(0), proposal(0, payload_only=True)], ids=["whole entries", "payloads"]
)
def test_a_peer_that_skips_every_second_payload_for_ever_takes_bounded_memory(asked: Propose) -> None:
    made = HandMade(make_log(1), NOTIFIES).control(asked)
    # Both pieces of an entry, the metadata of the next: its payload is skipped. Or every second payload.
    turn = encode_data(Notify(1 if asked.payload_only else 3)) + LACKS
    say(made, encode_data(Switch(0)) + turn * (2 * SKIPPED_RUNS_MAX))
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(8):
        say(made, turn * SKIPPED_RUNS_MAX)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 20_000
    (asked_for,) = made.end.requests
    assert asked_for.other_passed.skipped_runs == SKIPPED_RUNS_MAX
    assert len(asked_for.notified_metadata) <= request.NOTIFIED_RUNS_MAX
    assert asked_for.incoming.piece == (10 * SKIPPED_RUNS_MAX) * (2 if asked.payload_only else 4)


def test_two_ends_with_every_second_payload_have_all_of_them_beyond_the_bound() -> None:
    log = make_log(2 * SKIPPED_RUNS_MAX + 200, payload=lambda seq_num: b"%d" % seq_num)
    pair = Pair()
    for index, peer in enumerate(pair.peers):
        peer.add(
            entry if seq_num % 2 == index else NewEntry(entry.entry_bytes)
            for seq_num, entry in enumerate(log, 1)
        )
    pair.talk()
    pair.ends[0].propose(RequestedRange(*LOG, 1, end=len(log)))
    pair.talk()
    for index, end in enumerate(pair.ends):
        assert end.dropped is None and not end.requests
        assert all(pair.store(index).has_payload(LOG, seq_num) for seq_num in range(1, len(log) + 1))


def test_passed_pieces_are_those_that_were_not_skipped_until_the_bound() -> None:
    sequence = Sequence(4, lower=1, end=5_000, upper=5_000, offset=None, payload_only=False, sparse=False)
    passed, not_passed = PassedPieces(), set[int]()
    for index in range(sequence.size):
        piece = sequence.piece(index)
        if piece.is_payload and piece.seq_num % 5 < 2 and len(not_passed) < 2 * SKIPPED_RUNS_MAX:
            passed.skip(index, piece.seq_num)
            not_passed.add(index)
        else:
            passed.pass_to(index + 1)
    assert passed.skipped_runs <= SKIPPED_RUNS_MAX
    skipped = {index for index in range(sequence.size) if not passed.has(index, sequence)}
    assert skipped == not_passed
    assert passed.end_of_run(sequence.size, sequence) == sequence.size
    payloads = {number for first, last in passed.payloads(sequence) for number in range(first, last + 1)}
    assert payloads == {*range(4, 5_001)} - {sequence.piece(index).seq_num for index in not_passed}
    assert passed.entries(sequence) == [(1, 1), (4, 5_000)]


def test_what_an_end_only_notified_of_takes_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Payloads that it lacks, and so skips, make runs of what it notified of."""
    monkeypatch.setattr("culm_models.bamboo_p2p.data_channel.sender.NOTIFIED_RUNS_MAX", 8)
    bare = [NewEntry(entry.entry_bytes) for entry in make_log(60)]
    made = HandMade(bare, NOTIFIES)
    made.control(proposal(0, end=60, eagerness=Eagerness.NOTIFY))
    assert made.heard_data().count(LACKS) > 40
    (asked_for,) = made.end.requests
    assert len(asked_for.notified) == 8


def test_a_peer_that_names_ever_more_logs_takes_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_table, "KNOWN_RUNS_MAX", 16)
    made = HandMade(settings=NOTIFIES)
    known = made.end._link.metadata_at_other
    for number in range(100):
        asked = proposal(2 * number)
        made.control(Propose(asked.id, asked.public_key, number, 1, 1, 0, 0, None, Eagerness.ALL))
        made.data(Switch(asked.id), Notify(1), Cancelled(asked.id))
        assert known.has((asked.public_key, number), 1)
        made.control(Cancel(asked.id, CancelCode.DONE))
        made.heard_data()
        assert made.code is None and not made.end.requests
        assert len(known) <= 16


def test_what_open_requests_need_is_forgotten_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_table, "KNOWN_RUNS_MAX", 16)
    made = HandMade(make_log(3), NOTIFIES)
    made.control(proposal(0, end=3, payload_only=True))
    known = made.end._link.metadata_at_other
    for log_id in range(100, 200):
        known.add((LOG[0], log_id), 1, 2)
    assert known.has(LOG, 3) and len(known) <= 16
    for number in range(100):
        known.add(LOG, 10 * number, 10 * number + 1)
    assert len(known) <= 16


def test_a_peer_whose_proposals_lose_for_ever_is_dropped_at_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the credit of a lost proposal again, and never says the last data message of any (R15, R41)."""
    monkeypatch.setattr(negotiation, "LOST_MAX", 64)
    made = HandMade(is_proactive=True, settings=BambooSettings(credit=8))
    lost, ids = 0, count(1, 2)
    while made.code is None:
        made.control(Grant(1))
        own = made.end.propose(RequestedRange(*LOG, 1, end=2 + lost))
        for _ in range(8):
            losing = next(ids)
            made.control(proposal(losing, start=2), Cancel(losing, CancelCode.REFUSED))
            lost += made.code is None
            assert made.end._link.requests.lost <= 66
        if made.code is None:
            made.control(Cancel(own, CancelCode.DONE)).heard_data()
    assert made.code == "bamboo_p2p.limit"
    assert lost >= 32


def test_a_peer_that_ends_the_log_ever_earlier_makes_no_more_requests_than_wait() -> None:
    """Each 134 leads to a proposal by itself; none is freed without the peer's last data message."""
    made = HandMade(is_proactive=True).control(Grant(10_000))
    made.end.propose(RequestedRange(*LOG, 10_000, lower=1))
    asked = [message for message in made.heard() if isinstance(message, Propose)]
    proposed = 0
    while asked:
        proposed += len(asked)
        made.control(*[Cancel(message.id, CancelCode.END_OF_LOG, message.start - 1) for message in asked])
        made.heard_data()
        asked = [message for message in made.heard() if isinstance(message, Propose)]
    assert made.code is None
    assert proposed == len(made.end.requests) == reactions._MAX_WAITING
    # It goes on as soon as one is freed.
    made.data(Cancelled(0))
    assert len([message for message in made.heard() if isinstance(message, Propose)]) == 1
