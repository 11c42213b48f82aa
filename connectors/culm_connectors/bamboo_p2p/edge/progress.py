"""Who waits for an outbox: its publisher until something is due, connections for acknowledgements."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class OutboxProgress:
    """For the event loop's thread."""

    def __init__(self) -> None:
        self._due = asyncio.Event()
        # At the start it is looked what was left over.
        self._due.set()
        self._changed = asyncio.Condition()
        self._is_idle = False

    def wake(self) -> None:
        """There may be something to publish."""
        self._is_idle = False
        self._due.set()

    async def until_due(self) -> None:
        """Wait until there may be something to publish."""
        await self._due.wait()
        self._due.clear()

    async def idle(self) -> None:
        """All that was due is in Kafka."""
        self._is_idle = not self._due.is_set()
        await self.tell()

    async def tell(self) -> None:
        """What somebody waits for may be true now."""
        async with self._changed:
            self._changed.notify_all()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until that holds; it is looked at whenever Kafka has acknowledged something."""
        async with self._changed:
            await self._changed.wait_for(holds)

    async def until_idle(self) -> None:
        """Wait until everything that is due is in Kafka."""
        await self.until(lambda: self._is_idle)
