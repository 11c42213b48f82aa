"""A set of runs behaves like a set of numbers."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from culm_models.bamboo.range_set import RangeSet

runs = st.tuples(st.booleans(), st.integers(0, 40), st.integers(0, 12))


@given(st.lists(runs), st.integers(0, 60))
def test_runs_are_what_the_numbers_are(changes: list[tuple[bool, int, int]], at: int) -> None:
    range_set, expected = RangeSet(), set[int]()
    for adds, start, length in changes:
        numbers = range(start, start + length)
        if adds:
            range_set.add(start, start + length)
            expected.update(numbers)
        else:
            range_set.remove(start, start + length)
            expected.difference_update(numbers)

    listed = list(range_set)
    assert {number for start, end in listed for number in range(start, end)} == expected
    assert all(end < start for (_, end), (start, _) in itertools.pairwise(listed))
    assert len(range_set) == len(listed)
    assert (at in range_set) == (at in expected)
    assert range_set.next_member(at) == min((number for number in expected if number >= at), default=None)
    end = at
    while end in expected:
        end += 1
    assert range_set.end_of_run(at) == end
    assert range_set.covers(at, end)
    assert not range_set.covers(at, end + 1)
    assert range_set.highest == max(expected, default=None)


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(1, 3)), max_size=60), st.integers(1, 5))
def test_a_coarse_set_has_so_many_runs_and_all_that_was_put_in(
    added: list[tuple[int, int]], max_runs: int
) -> None:
    coarse, exact = RangeSet(), RangeSet()
    for start, length in sorted(added):
        coarse.add_coarsely(start, start + length, max_runs)
        exact.add(start, start + length)
        assert len(coarse) <= max_runs
    assert all(coarse.covers(start, end) for start, end in exact)
    # What there is too much of lies within the last run.
    before = list(coarse)[: max_runs - 1]
    assert before == list(exact)[: len(before)]
    assert coarse.highest == exact.highest
