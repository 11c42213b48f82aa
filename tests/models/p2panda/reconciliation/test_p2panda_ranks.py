"""Sets of ranks on a ring, kept as runs."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from culm_models.p2panda.sessions.remote_heights import Ranks

SIZE = 40
SPANS = st.lists(st.tuples(st.integers(0, SIZE - 1), st.integers(0, SIZE)), max_size=30)


@given(SPANS, SPANS)
def test_what_was_put_in_is_in(spans: list[tuple[int, int]], more: list[tuple[int, int]]) -> None:
    ranks = Ranks(SIZE)
    expected: set[int] = set()
    for part in (spans, more):
        ranks.update(part)
        expected |= {(start + place) % SIZE for start, size in part for place in range(size)}
        runs = ranks.runs()
        assert {rank for start, end in runs for rank in range(start, end)} == expected
        assert all(before[1] < after[0] for before, after in pairwise(runs))
        gaps = {rank for start, end in ranks.gaps() for rank in range(start, end)}
        assert gaps == set(range(SIZE)) - expected
        assert len(ranks) == len(expected)
