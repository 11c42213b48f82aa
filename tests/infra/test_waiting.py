"""What tests wait with: a wait goes on while work does, and ends when nothing goes on any more."""

import asyncio
import itertools
import time

import pytest

from culm_infra.errors import NotReached
from tests.support.waiting import ended, looks, until, while_working

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
