"""Waiting in tests for what comes about by itself: a wait ends when nothing goes on any more.

What is waited for runs in the tests' own process as a rule, so its processor time shows whether anything
goes on. A machine that is slow, or that many share, lengthens a wait and fails no test. The limit of
pytest-timeout ends what works without an end.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar

from culm_infra.demo.kit.processes import CulmProcess
from culm_infra.errors import NotReached
from culm_infra.patience import Patience

IDLE_LIMIT_S = 60.0
_STEP_S = 0.01
_LOOKS = 20
_WORK_S = 3.0
"""A process that takes less of the processor than this within a limit is idle: looking takes some, too."""

_Result = TypeVar("_Result")


def work_done() -> int:
    """Processor time that this process has taken, in steps that one which only looks does not reach."""
    return int(time.process_time() / _WORK_S)


def output_of(*logs: Path) -> Callable[[], object]:
    """Progress of processes that print into files: how much they have printed."""
    return lambda: [log.stat().st_size for log in logs if log.exists()]


@contextlib.asynccontextmanager
async def while_working(
    what: str = "the end of a wait",
    *,
    limit_s: float = IDLE_LIMIT_S,
    progress: Callable[[], object] = work_done,
) -> AsyncIterator[None]:
    """Cancel the body when nothing changes for too long. Raises NotReached then."""
    patience = Patience(limit_s, progress)
    loop = asyncio.get_running_loop()
    goes_on = True

    def look() -> None:
        if goes_on and patience.is_over():
            limit.reschedule(loop.time())
        elif goes_on:
            loop.call_later(limit_s / _LOOKS, look)

    try:
        async with asyncio.timeout(None) as limit:
            look()
            try:
                yield
            finally:
                goes_on = False
    except TimeoutError:
        if not limit.expired():
            raise
        raise NotReached(f"not reached: {what}; nothing went on for {limit_s:.0f} s") from None


async def ended(work: Awaitable[_Result], what: str = "the end of a wait") -> _Result:
    """Return what this comes to. Raises NotReached when nothing goes on any more."""
    async with while_working(what):
        return await work


async def until(
    condition: Callable[[], object],
    what: str = "a condition",
    *,
    limit_s: float = IDLE_LIMIT_S,
    progress: Callable[[], object] = work_done,
    check: Callable[[], object] = lambda: None,
    step_s: float = _STEP_S,
) -> None:
    """Wait until a condition holds. Raises NotReached, and what `check` raises meanwhile."""
    async with while_working(what, limit_s=limit_s, progress=progress):
        while not condition():
            check()
            await asyncio.sleep(step_s)


def looks(
    what: str | Callable[[], str],
    *,
    limit_s: float = IDLE_LIMIT_S,
    progress: Callable[[], object] = work_done,
    step_s: float = 0.05,
) -> Iterator[None]:
    """Turns of a loop that leaves by itself when it has what it waits for. Raises NotReached."""
    patience = Patience(limit_s, progress)
    while True:
        yield
        patience.check(what)
        time.sleep(step_s)


def await_output(process: CulmProcess, holds: Callable[[], bool], *, limit_s: float = 300.0) -> None:
    """Wait until a condition holds that a process brings about. Raises if it ends or prints nothing more."""
    for _ in looks(process.printed, limit_s=limit_s, progress=process.printed_bytes, step_s=0.1):
        if holds():
            return
        process.check()
