"""Links of entries: lipmaa numbers, what a link may be, certificate pools and shortest paths."""

import dataclasses
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models import bamboo
from culm_models.bamboo import errors, lipmaa, needs_skiplink
from culm_models.bamboo import hashes as yasmf
from culm_models.bamboo.certificate_pool import (
    MAX_SEQ_NUM,
    in_lower_pool,
    lower_pool,
    shortest_path,
    upper_pool,
)
from culm_models.keys import KeyPair

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


def _by_spine(limit: int) -> list[int]:
    """The spans of all links from 1 on, built the other way round: block by block along the spine.

    Between two spine numbers stand two equal blocks. A block is three of the next smaller blocks and a
    link across itself; the link of a spine number leads to the spine number before.
    """
    spans, block = [1], [1]
    while len(spans) < limit:
        spine_number = len(spans)
        spans = [*spans, *block, *block]
        spans.append(len(spans) + 1 - spine_number)
        block = [*block, *block, *block, len(spans)]
    return spans


def test_links_agree_with_a_construction_from_the_spine() -> None:
    spans = _by_spine(20_000)
    assert [seq_num - lipmaa(seq_num) for seq_num in range(1, len(spans) + 1)] == spans


@pytest.mark.parametrize(
    ("seq_num", "target"),
    [
        *((1, 0), (4, 1), (8, 4), (12, 8), (13, 4), (17, 13), (26, 13), (39, 26), (40, 13)),
        (2**32 - 1, 4294967294),
        (2**64 - 1, 18446744073709551611),
    ],
)
def test_published_links(seq_num: int, target: int) -> None:
    assert lipmaa(seq_num) == target


def test_a_skiplink_is_left_out_when_it_equals_the_backlink() -> None:
    assert [n for n in range(1, 21) if needs_skiplink(n)] == [4, 8, 12, 13, 17]
    assert all(needs_skiplink(n) == (lipmaa(n) != n - 1) for n in range(2, 5000))


def test_paths_are_logarithmic() -> None:
    seq_num, steps = 2**64 - 1, 0
    while seq_num > 1:
        seq_num, steps = lipmaa(seq_num), steps + 1
    assert steps < 120


@pytest.mark.assertions
def test_zero_has_no_link() -> None:
    with pytest.raises(AssertionError):
        lipmaa(0)


AUTHOR = KeyPair.generate(b"author")


def _log(length: int) -> tuple[list[bamboo.Entry], dict[int, bytes]]:
    entries: list[bamboo.Entry] = []
    hashes: dict[int, bytes] = {}
    for seq_num in range(1, length + 1):
        entry_bytes = bamboo.sign_entry(
            AUTHOR,
            7,
            seq_num,
            b"payload %d" % seq_num,
            skiplink=hashes[bamboo.lipmaa(seq_num)] if bamboo.needs_skiplink(seq_num) else None,
            backlink=hashes.get(seq_num - 1),
        )
        hashes[seq_num] = bamboo.hash_bytes(entry_bytes)
        entries.append(bamboo.decode_entry(entry_bytes))
    return entries, hashes


ENTRIES, HASHES = _log(41)


def test_an_honest_log_passes_in_order() -> None:
    for entry in ENTRIES:
        hashes = {seq_num: HASHES[seq_num] for seq_num in range(1, entry.seq_num)}
        bamboo.check_links(entry, hash_at=hashes.get)


@pytest.mark.parametrize("seq_num", [2, 4, 13, 40, 41])
def test_an_entry_that_comes_early_waits_for_the_one_before(seq_num: int) -> None:
    hashes = {other: HASHES[other] for other in HASHES if other != seq_num - 1}
    with pytest.raises(errors.BacklinkUnknownError):
        bamboo.check_links(ENTRIES[seq_num - 1], hash_at=hashes.get)


@pytest.mark.parametrize("seq_num", [4, 13, 40])
def test_the_target_of_the_skiplink_must_be_held_and_the_same(seq_num: int) -> None:
    target = bamboo.lipmaa(seq_num)
    entry = ENTRIES[seq_num - 1]
    hashes = {other: HASHES[other] for other in HASHES if other != target}
    with pytest.raises(errors.SkiplinkUnknownError):
        bamboo.check_links(entry, hash_at=hashes.get)
    with pytest.raises(errors.SkiplinkMismatchError):
        bamboo.check_links(entry, hash_at={**HASHES, target: yasmf.hash_bytes(b"another")}.get)


@pytest.mark.parametrize("seq_num", [2, 4, 41])
def test_the_backlink_must_name_the_entry_that_is_held(seq_num: int) -> None:
    hashes = {**HASHES, seq_num - 1: yasmf.hash_bytes(b"another")}
    with pytest.raises(errors.BacklinkMismatchError):
        bamboo.check_links(ENTRIES[seq_num - 1], hash_at=hashes.get)


def test_nothing_follows_the_end_of_a_log() -> None:
    bamboo.check_links(ENTRIES[8], hash_at=HASHES.get, end_of_log_at=9)
    with pytest.raises(errors.AfterEndOfLogError):
        bamboo.check_links(ENTRIES[9], hash_at=HASHES.get, end_of_log_at=9)


def test_error_codes_are_unique() -> None:
    codes = [
        error.code
        for error in vars(errors).values()
        if isinstance(error, type) and issubclass(error, errors.BambooError)
    ]
    assert len(codes) == len(set(codes))
    assert all(code == "bamboo" or code.startswith("bamboo.") for code in codes)


def test_the_first_entry_needs_nothing() -> None:
    first = dataclasses.replace(ENTRIES[0])
    bamboo.check_links(first, hash_at=lambda _: None)
