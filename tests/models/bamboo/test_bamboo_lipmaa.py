import pytest

from culm_models.bamboo import lipmaa, needs_skiplink


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
