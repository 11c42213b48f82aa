"""Waiting for what a demo shows, while something changes: that a machine is slow is no fault."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from culm_infra.patience import Patience

_STEP_S = 0.05
_Result = TypeVar("_Result")


def _nothing_can_end() -> None:
    pass


async def wait_until(
    holds: Callable[[], bool | Awaitable[bool]],
    what: str | Callable[[], str],
    *,
    limit_s: float,
    progress: Callable[[], object],
    step_s: float = _STEP_S,
    check: Callable[[], None] = _nothing_can_end,
) -> None:
    """Look again and again. Raises NotReached when nothing changes, and what `check` raises meanwhile."""
    patience = Patience(limit_s, progress)
    while True:
        found = holds()
        if await found if isinstance(found, Awaitable) else found:
            return
        check()
        patience.check(what)
        await asyncio.sleep(step_s)


async def wait_for(
    work: Awaitable[_Result], what: str, *, limit_s: float, progress: Callable[[], object]
) -> _Result:
    """Wait for the end of something, which is cancelled otherwise. Raises NotReached when nothing changes."""
    patience = Patience(limit_s, progress)
    task = asyncio.ensure_future(work)
    try:
        while not (await asyncio.wait({task}, timeout=_STEP_S))[0]:
            patience.check(what)
        return task.result()
    finally:
        task.cancel()
