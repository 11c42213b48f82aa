"""The sync range in memory: ranks, spans and fingerprints against a plain list."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.lifts import ADD128, LIFTS, SIPHASH128, Item, Lift
from culm_models.p2panda.operations.operation import CheckedOperation
from culm_models.p2panda.peer import Peer
from culm_models.p2panda.reconciliation import reconciling
from culm_models.p2panda.reconciliation.ranges import EntryRange
from culm_models.p2panda.sessions.remote_heights import Ranks
from culm_models.p2panda.store import MemoryLogStore, SyncRange
from culm_models.p2panda.wire import codec
from tests.support.p2panda.logs import OTHER_SCHEMA, SCHEMA, author, make_log
from tests.support.p2panda.peers import HIGH, LOW, NOW, connect, heights, kinds, make_peer

KEYS = st.sampled_from([bytes((number,)) * 32 for number in (0, 1, 7, 255)])
HEIGHTS = st.dictionaries(st.tuples(KEYS, st.integers(0, 5)), st.integers(1, 9), max_size=12)


@given(HEIGHTS, st.data(), st.sampled_from(LIFTS))
def test_spans_go_round_the_ring(
    heights: dict[tuple[bytes, int], int], data: st.DataObject, lift: Lift
) -> None:
    items: list[Item] = sorted((*key, seq_num) for key, seq_num in heights.items())
    salt = bytes(lift.salt_bytes)
    sync_range = SyncRange(reversed(items), lift, salt)
    assert len(sync_range) == len(items)
    start = data.draw(st.integers(0, len(items)))
    size = data.draw(st.integers(0, len(items)))
    expected = (items + items)[start : start + size]
    assert sync_range.items(start, size) == expected
    assert sync_range.fingerprints([(start, size)]) == [lift.fingerprint(expected, salt)]
    bound = (data.draw(KEYS), data.draw(st.integers(0, 5)), data.draw(st.integers(0, 9)))
    assert sync_range.ranks([bound]) == [sum(item < bound for item in items)]
    assert sync_range.bounds(range(len(items))) == [(key, log_id, 0) for key, log_id, _ in items]


@pytest.mark.parametrize("salt", [b"", bytes(16)])
def test_the_stores_range_is_of_its_moment(salt: bytes) -> None:
    lift = SIPHASH128 if salt else ADD128
    store = MemoryLogStore()
    log = make_log(author("anna"), 3, 4)
    store.append(log[:2])
    store.append(make_log(author("anna"), 4, 1, schema_id=OTHER_SCHEMA))
    sync_range = store.sync_range([SCHEMA], lift, salt)
    store.append(log)
    assert sync_range.items(0, 1) == [(*log[0].log, 2)]
    later = store.sync_range([SCHEMA, OTHER_SCHEMA], lift, salt)
    assert later.items(0, len(later)) == store.log_heights([SCHEMA, OTHER_SCHEMA])
    assert store.sync_range([OTHER_SCHEMA, SCHEMA], lift, salt) is later


# Sets of ranks on a ring, kept as runs.


SIZE = 40
SPANS = st.lists(st.tuples(st.integers(0, SIZE - 1), st.integers(0, SIZE)), max_size=30)


@given(SPANS, SPANS)
def test_what_was_put_in_is_in(spans: list[tuple[int, int]], more: list[tuple[int, int]]) -> None:
    ranks = Ranks(SIZE)
    expected: set[int] = set()
    for part in (spans, more):
        ranks.update(part)
        expected |= {(start + offset) % SIZE for start, size in part for offset in range(size)}
        runs = ranks.runs()
        assert {rank for start, end in runs for rank in range(start, end)} == expected
        assert all(before[1] < after[0] for before, after in pairwise(runs))
        gaps = {rank for start, end in ranks.gaps() for rank in range(start, end)}
        assert gaps == set(range(SIZE)) - expected
        assert len(ranks) == len(expected)


# Batches that are on their way piece by piece: an answer begins before its batch has ended (rbsr.md 1.4).


@cache
def log(number: int) -> list[CheckedOperation]:
    return make_log(author(f"large batches {number}"), 0, 1)


def say_one(sender: Peer, receiver: Peer) -> bool:
    """Carry the first thing that waits, as a driver whose transport takes little at a time."""
    outgoing = sender.outgoing(receiver.peer_id)
    if not outgoing:
        return False
    item = outgoing.popleft()
    if isinstance(item, EntryRange):
        pairs = sender.store.entries(item.public_key, item.log_id, item.first_seq_num, item.last_seq_num)
        data = b"".join(codec.encode_entry_message(item.session_id, *pair) for pair in pairs)
    else:
        data = item.data
    receiver.receive(sender.peer_id, data, NOW)
    return True


@pytest.mark.parametrize("steps", [(1, 1), (1, 5), (7, 1)])
def test_an_answer_may_begin_while_the_batch_is_still_on_its_way(
    monkeypatch: pytest.MonkeyPatch, steps: tuple[int, int]
) -> None:
    monkeypatch.setattr(reconciling, "_AT_ONCE", 8)
    monkeypatch.setattr(reconciling, "_MESSAGES_AN_ITEM", 2)
    low, high = (
        make_peer(peer, [log(number) for number in numbers], payload_threshold=1, range_division=2)
        for peer, numbers in ((LOW, range(120)), (HIGH, range(60, 180)))
    )
    connect(low, high)
    low.sync(HIGH, 1, [SCHEMA], NOW)
    moved = 1
    while moved:
        moved = sum(say_one(low, high) for _ in range(steps[0]))
        moved += sum(say_one(high, low) for _ in range(steps[1]))
    assert heights(low) == heights(high)
    assert len(heights(low)) == 180
    for peer in (low, high):
        event_kinds = kinds(peer.take_events())
        assert "session_failed" not in event_kinds and event_kinds.count("live") == 1
