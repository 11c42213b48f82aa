"""Every test of this folder fails when something reaches the event loop's exception handler."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest


@pytest.fixture(autouse=True)
async def no_stray_exceptions() -> AsyncIterator[None]:
    stray: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: stray.append(context))
    before = asyncio.all_tasks()
    yield
    left = {task for task in asyncio.all_tasks() - before - {asyncio.current_task()} if not task.done()}
    assert not stray, f"reached the loop's exception handler: {stray}"
    assert not left, f"tasks left behind: {left}"
