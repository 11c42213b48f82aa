"""Who waits for an outbox: its publishers until something is due, doors until Kafka has acknowledged."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping


class OutboxProgress:
    """Of one event loop. `waiting` has the numbers of what Kafka has not acknowledged."""

    def __init__(self, waiting: Mapping[int, object]) -> None:
        self._waiting = waiting
        self._due: list[asyncio.Event] = []
        self._changed = asyncio.Condition()

    def due(self) -> asyncio.Event:
        """An event that is set whenever something may be due; at first, too: something may be left over."""
        event = asyncio.Event()
        event.set()
        self._due.append(event)
        return event

    def wake(self) -> None:
        """There may be something to publish."""
        for event in self._due:
            event.set()

    async def notify(self) -> None:
        """Kafka has acknowledged something."""
        async with self._changed:
            self._changed.notify_all()

    async def until(self, numbers: Iterable[int]) -> None:
        """Wait until Kafka has acknowledged all of these."""
        left = set(numbers)
        if left.isdisjoint(self._waiting):
            return
        async with self._changed:
            await self._changed.wait_for(lambda: left.isdisjoint(self._waiting))

    async def until_idle(self) -> None:
        """Wait until everything is in Kafka."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._waiting)
