"""The latest overview as JSON, for all browsers: encoded once, awaited by many."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OverviewSnapshot:
    """An overview as JSON, and its number, which grows by one each time."""

    number: int
    document: bytes


class OverviewSnapshots:
    """The latest snapshot. For one event loop."""

    def __init__(self) -> None:
        self._latest = OverviewSnapshot(0, b"{}")
        self._is_closed = False
        self._changed = asyncio.Condition()

    @property
    def latest(self) -> OverviewSnapshot:
        """Return the latest snapshot; its number is 0 before the first one."""
        return self._latest

    async def publish(self, document: bytes) -> None:
        """Replace the latest snapshot, and wake those who wait for it."""
        self._latest = OverviewSnapshot(self._latest.number + 1, document)
        await self._notify()

    async def close(self) -> None:
        """End all waits."""
        self._is_closed = True
        await self._notify()

    async def after(self, number: int) -> OverviewSnapshot | None:
        """Wait for a snapshot with a higher number; returns None once the snapshots are closed."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._is_closed or self._latest.number > number)
        return None if self._is_closed else self._latest

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()
