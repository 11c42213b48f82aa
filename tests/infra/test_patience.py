"""Patience ends a wait when nothing changes any more, however long it took before."""

import pytest

from culm_infra.errors import NotReached
from culm_infra.patience import Patience


class Watched:
    """A clock and what changes, both set by hand."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.changes = 0
        self.patience = Patience(10.0, lambda: self.changes, clock_s=lambda: self.now_s)


def test_changes_begin_the_limit_anew() -> None:
    watched = Watched()
    for _ in range(5):
        watched.now_s += 9
        watched.changes += 1
        assert not watched.patience.is_over()
    watched.now_s += 10
    assert not watched.patience.is_over()
    watched.now_s += 1
    assert watched.patience.is_over()


def test_a_change_that_is_seen_late_counts() -> None:
    watched = Watched()
    watched.now_s, watched.changes = 1_000, 1
    assert not watched.patience.is_over()


def test_the_end_says_what_was_waited_for() -> None:
    watched = Watched()
    watched.patience.check("more")
    watched.now_s = 11
    with pytest.raises(NotReached, match="not reached in time: a miracle; nothing changed for 10 s"):
        watched.patience.check(lambda: "a miracle")
