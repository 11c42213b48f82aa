"""Certificate pools and shortest paths, against the figures of the reference and against a plain search."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.bamboo.entry import lipmaa
from culm_models.bamboo.proofs import MAX_SEQ_NUM, in_lower_pool, lower_pool, shortest_path, upper_pool

seq_nums = st.integers(1, MAX_SEQ_NUM) | st.integers(1, 3000)


def test_the_pool_of_23() -> None:
    assert upper_pool(23) == [23, 24, 25, 26, 39, 40]
    assert lower_pool(23) == [23, 22, 21, 17, 13, 4, 1]


def test_an_entry_among_100_000_is_proven_by_41() -> None:
    assert len(set(lower_pool(100_000)) | set(upper_pool(100_000))) == 41


def test_the_longest_known_path_of_64_bits() -> None:
    assert len(shortest_path(1, 12138203929810653463)) - 1 == 99


def test_pools_are_cut_where_numbers_end() -> None:
    assert upper_pool(MAX_SEQ_NUM) == [MAX_SEQ_NUM]
    assert max(upper_pool(18236498188585393202)) <= MAX_SEQ_NUM


@given(seq_nums)
def test_a_lower_pool_leads_down_to_1_by_lipmaalinks(number: int) -> None:
    pool = lower_pool(number)
    assert pool[0] == number
    assert pool[-1] == 1
    assert all(lipmaa(above) == below for above, below in itertools.pairwise(pool))
    assert all(in_lower_pool(element, number) for element in pool)
    assert not in_lower_pool(number + 1, number)


@given(seq_nums)
def test_every_step_of_an_upper_pool_is_a_link(number: int) -> None:
    pool = upper_pool(number)
    assert pool[0] == number
    for below, above in itertools.pairwise(pool):
        assert below in (lipmaa(above), above - 1)


@pytest.mark.parametrize("end", range(1, 130))
def test_no_path_is_shorter(end: int) -> None:
    distance = {end: 0}
    for number in range(end, 1, -1):
        for target in (lipmaa(number), number - 1):
            if number in distance and target >= 1:
                distance[target] = min(distance.get(target, end), distance[number] + 1)
    for start in range(1, end + 1):
        path = shortest_path(start, end)
        assert (path[0], path[-1]) == (start, end)
        # Descents below `start` never help, so the plain search may ignore them.
        assert len(path) - 1 == distance[start]
