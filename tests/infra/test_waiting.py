"""Patience ends a wait when nothing changes any more; what tests wait with goes on while work does."""

from __future__ import annotations

import asyncio
import itertools
import time

import pytest

from culm_infra.errors import NotReached
from culm_infra.patience import Patience
from tests.support.process.waiting import ended, looks, until, while_working


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


SHORT_S = 0.05


async def test_a_wait_goes_on_while_anything_changes() -> None:
    changes = itertools.count()
    begun_s = time.monotonic()
    await until(lambda: time.monotonic() - begun_s > 5 * SHORT_S, limit_s=SHORT_S, progress=changes.__next__)


async def test_a_wait_ends_when_nothing_goes_on() -> None:
    with pytest.raises(NotReached, match="a miracle; nothing went on"):
        await until(lambda: False, "a miracle", limit_s=SHORT_S)
    with pytest.raises(NotReached, match="the end of a wait"):
        async with while_working(limit_s=SHORT_S):
            await asyncio.Event().wait()


async def test_errors_of_what_is_waited_for_are_its_own() -> None:
    async def fail() -> None:
        raise TimeoutError("of its own")

    with pytest.raises(TimeoutError, match="of its own"):
        await ended(fail())


def test_looks_end_when_nothing_goes_on() -> None:
    with pytest.raises(NotReached, match="a miracle"):
        for _ in looks("a miracle", limit_s=0.0, step_s=0.01, progress=lambda: 0):
            pass
