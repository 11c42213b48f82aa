"""Bounds for the compact form: on the right side of every item, as short as they can be, many at once."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from culm_models import lifts
from culm_models.p2panda.store import SyncRange
from culm_models.p2panda.wire.compact import LOWEST_BOUND, ShortBounds, padded, prefix, separating_bound
from culm_models.reconciliation import Reconciler

# Few different bytes, zero among them, so that keys share prefixes of every length.
KEYS = st.binary(max_size=4).map(lambda start: start.ljust(30, b"\x01") + b"\x00\x00") | st.binary(
    min_size=32, max_size=32
)
NEAR_KEYS = st.tuples(st.integers(0, 31), st.sampled_from((0, 1, 255))).map(
    lambda pair: bytes(pair[0]) + bytes((pair[1],)) + bytes(31 - pair[0])
)
LOGS = st.lists(
    st.tuples(KEYS | NEAR_KEYS, st.integers(0, 2**64 - 1)), unique=True, min_size=1, max_size=30
).map(sorted)


@given(LOGS)
def test_a_bound_parts_its_two_neighbours_whatever_their_heights(logs: list[tuple[bytes, int]]) -> None:
    for before, log in pairwise(logs):
        bound = separating_bound((*before, 7), (*log, 9))
        assert (*before, 2**64 - 1) < bound <= (*log, 0)


@given(LOGS)
def test_no_shorter_prefix_parts_two_authors(logs: list[tuple[bytes, int]]) -> None:
    for before, log in pairwise(logs):
        if before[0] == log[0]:
            assert separating_bound((*before, 1), (*log, 1)) == (*log, 0)
            continue
        key, log_id, seq_num = separating_bound((*before, 1), (*log, 1))
        assert (log_id, seq_num) == (0, 0)
        shorter = prefix(key)[:-1]
        # The greatest key of that many bytes which is not after the second author is a prefix of it.
        assert padded(log[0][: len(shorter)]) <= before[0]


def test_in_front_of_everything_is_the_lowest_bound() -> None:
    assert separating_bound(None, (b"\x07" * 32, 3, 1)) == LOWEST_BOUND
    assert prefix(LOWEST_BOUND[0]) == b""


@given(st.binary(min_size=32, max_size=32) | NEAR_KEYS)
def test_the_spelling_of_a_key_as_a_prefix_is_exact(key: bytes) -> None:
    assert padded(prefix(key)) == key


@given(LOGS, st.data())
def test_a_set_with_short_bounds_is_cut_in_the_same_places(
    logs: list[tuple[bytes, int]], data: st.DataObject
) -> None:
    ranks = data.draw(st.lists(st.integers(0, len(logs) - 1), max_size=40))
    heights = st.integers(1, 2**64 - 1)
    whole = SyncRange([(*log, data.draw(heights)) for log in logs], lifts.DEFAULT)
    short = ShortBounds(whole)
    bounds = short.bounds(ranks)
    assert len(short) == len(whole)
    assert short.ranks(bounds) == whole.ranks(whole.bounds(ranks)) == ranks
    assert short.items(0, len(logs)) == whole.items(0, len(logs))
    assert short.fingerprints([(0, len(logs))]) == whole.fingerprints([(0, len(logs))])


FEW_AUTHORS = st.sets(
    st.tuples(st.integers(0, 5).map(lambda number: bytes((number,)) * 32), st.integers(0, 40)), min_size=1
)


@given(FEW_AUTHORS, st.data())
def test_cuts_are_moved_to_the_nearest_place_between_two_authors(
    logs: set[tuple[bytes, int]], data: st.DataObject
) -> None:
    items = [(*log, 1) for log in sorted(logs)]
    short = ShortBounds(SyncRange(items, lifts.DEFAULT))
    ranks = data.draw(st.lists(st.integers(0, len(items) - 1), max_size=10))
    max_moves = data.draw(st.lists(st.integers(0, 9), min_size=len(ranks), max_size=len(ranks)))
    between = [rank for rank in range(1, len(items)) if items[rank - 1][0] != items[rank][0]]
    for rank, max_move, move in zip(ranks, max_moves, short.move_cuts(ranks, max_moves), strict=True):
        near = [abs(cut - rank) for cut in between if abs(cut - rank) <= max_move]
        if rank and near:
            assert rank + move in between and abs(move) == min(near)
        else:
            assert move == 0


@given(FEW_AUTHORS, FEW_AUTHORS, st.sampled_from((1, 2, 8)), st.sampled_from((2, 3, 4)))
def test_two_sides_with_short_bounds_meet(
    ours: set[tuple[bytes, int]], theirs: set[tuple[bytes, int]], threshold: int, division: int
) -> None:
    sets = sorted(ours | theirs), sorted(theirs)
    first, second = (
        Reconciler(short, threshold=threshold, division=division, move_cuts=short.move_cuts)
        for short in (ShortBounds(SyncRange([(*log, 1) for log in logs], lifts.DEFAULT)) for logs in sets)
    )
    batch, turn, other = first.start(), second, first
    while batch:
        batch, turn, other = turn.receive_batch(batch), other, turn
    assert first.done and second.done
    for own_logs, other_logs, machine in zip(sets, reversed(sets), (first, second), strict=True):
        facts = machine.take_facts()
        shown = {item[:2] for item in facts.shown}
        assert set(other_logs) - set(own_logs) <= shown <= set(other_logs)
        spans = [*facts.equal, *facts.complete, *facts.answered]
        ranks = {(start + offset) % len(own_logs) for start, size in spans for offset in range(size)}
        assert ranks == set(range(len(own_logs)))
        for start, size in facts.equal:
            assert {own_logs[(start + offset) % len(own_logs)] for offset in range(size)} <= set(other_logs)
