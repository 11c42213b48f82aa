"""Entries of all connections on their way into the store, one after the other, bounded in number and bytes.

They pass through one queue, in the order in which they were applied, so that a log's entries are never stored
out of order. Where the store takes nothing, `room` is what stops the connections.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from culm_connectors.logs.publish import Arrival
from culm_connectors.p2panda.metrics import DriverMetrics
from culm_connectors.p2panda.settings import DriverSettings


class StagedEntries:
    """The queue. `store` returns what could not be stored; `settle` is given each batch with that."""

    def __init__(
        self,
        settings: DriverSettings,
        metrics: DriverMetrics,
        store: Callable[[Sequence[Arrival]], Awaitable[Sequence[Arrival]]],
        settle: Callable[[Sequence[Arrival], Sequence[Arrival]], None],
    ) -> None:
        self._settings = settings
        self._metrics = metrics
        self._store = store
        self._settle = settle
        self._waiting: deque[Arrival] = deque()
        self._waiting_bytes = 0
        self._since_s: deque[tuple[int, float]] = deque()
        """When those that wait or are being stored were staged: how many at once, and when."""
        self._storing = 0
        self._staged_count = self._settled_count = 0
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()

    def stage(self, arrivals: Sequence[Arrival]) -> None:
        """Have these stored, in this order, after all that were staged before."""
        if arrivals:
            self._waiting.extend(arrivals)
            self._staged_count += len(arrivals)
            self._waiting_bytes += sum(arrival.size_bytes for arrival in arrivals)
            self._since_s.append((len(arrivals), time.monotonic()))
            self._arrived.set()
            self._metrics.staged = len(self._waiting) + self._storing
            self._metrics.staged_bytes = self._waiting_bytes

    async def room(self) -> None:
        """Wait while too many entries wait to be stored."""
        while (
            len(self._waiting) + self._storing >= self._settings.max_staged
            or self._waiting_bytes >= self._settings.max_staged_bytes
        ):
            self._room.clear()
            await self._room.wait()

    async def drained(self) -> None:
        """Wait until everything that was staged so far is stored."""
        last = self._staged_count
        while self._settled_count < last:
            self._room.clear()
            await self._room.wait()

    async def run(self) -> None:
        """Store what arrives, until cancelled. Raises what the store does."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            while self._waiting:
                batch, size_bytes = self._next_batch()
                self._storing = len(batch)
                refused = await self._store(batch)
                self._storing = 0
                self._waiting_bytes -= size_bytes
                self._metrics.staged, self._metrics.staged_bytes = len(self._waiting), self._waiting_bytes
                self._observe(len(batch))
                self._settle(batch, refused)
                self._settled_count += len(batch)
                self._room.set()

    def _observe(self, stored: int) -> None:
        now_s, latency = time.monotonic(), self._metrics.accept_latency
        while stored:
            count, since_s = self._since_s.popleft()
            latency.observe(now_s - since_s, min(count, stored))
            if count > stored:
                self._since_s.appendleft((count - stored, since_s))
            stored -= min(count, stored)

    def _next_batch(self) -> tuple[list[Arrival], int]:
        batch: list[Arrival] = []
        size_bytes = 0
        while self._waiting and len(batch) < self._settings.store_batch:
            size_bytes += self._waiting[0].size_bytes
            if batch and size_bytes > self._settings.store_batch_bytes:
                size_bytes -= self._waiting[0].size_bytes
                break
            batch.append(self._waiting.popleft())
        return batch, size_bytes
