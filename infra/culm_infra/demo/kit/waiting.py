"""Waiting for what a demo shows, with a limit."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from culm_infra.demo.kit.processes import DemoError


def _nothing_can_end() -> None:
    pass


async def wait_until(
    holds: Callable[[], bool | Awaitable[bool]],
    what: str,
    *,
    timeout_s: float,
    step_s: float,
    check: Callable[[], None] = _nothing_can_end,
) -> None:
    """Look again and again. Raises DemoError when it takes too long, and what `check` raises meanwhile."""
    deadline_s = time.monotonic() + timeout_s
    while True:
        found = holds()
        if await found if isinstance(found, Awaitable) else found:
            return
        if time.monotonic() > deadline_s:
            raise DemoError(f"waited {timeout_s:.0f} s in vain for {what}")
        check()
        await asyncio.sleep(step_s)
