"""The checker checked: two naive sides agree on the union, whatever their settings."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.acceptance.naive import NaiveSide, reconcile

LETTERS = st.sets(st.sampled_from("abcdefghijklmnopqrstuvwxyz"))
SETTINGS = st.tuples(st.integers(1, 4), st.integers(2, 5))


def joined(items: list[str]) -> str:
    """The monoid `concat`."""
    return "".join(items) or "0"


def side(items: set[str], settings: tuple[int, int], *, absorb: bool = True, gaps: bool = False) -> NaiveSide:
    return NaiveSide(list(items), joined, *settings, absorb=absorb, gaps=gaps)


@given(LETTERS, LETTERS, SETTINGS, SETTINGS)
def test_both_end_with_the_union(a: set[str], b: set[str], x: tuple[int, int], y: tuple[int, int]) -> None:
    one, other = side(a, x), side(b, y)
    reconcile(one, other)
    assert one.done and other.done
    assert set(one.items) == set(other.items) == a | b


@given(LETTERS, LETTERS, SETTINGS, SETTINGS)
def test_ranges_called_equal_are_equal(
    a: set[str], b: set[str], x: tuple[int, int], y: tuple[int, int]
) -> None:
    one, other = side(a, x, absorb=False), side(b, y, absorb=False)
    reconcile(one, other)
    for lower, upper in one.equal + other.equal:
        assert one.range(lower, upper) == other.range(lower, upper)


def test_silence_in_place_of_a_done_loses_nothing() -> None:
    one, other = side(set("abcdefgh"), (2, 2), gaps=True), side(set("aceg"), (2, 2), gaps=True)
    reconcile(one, other)
    assert set(one.items) == set(other.items) == set("abcdefgh")
