"""Records of peers on their way into Kafka: in order, bounded, and each key no more than its share."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

from culm_connectors.sds.backbone import Backbone, OutgoingRecord
from culm_connectors.sds.link import MemberLink
from culm_connectors.sds.metrics import SdsMetrics
from culm_connectors.sds.settings import SdsEdgeSettings

_Entry = tuple[OutgoingRecord, "MemberLink | None", "Callable[[], None] | None", float]


class Staging:
    """`run` must be running; an error of the backbone ends it."""

    def __init__(self, backbone: Backbone, settings: SdsEdgeSettings, metrics: SdsMetrics) -> None:
        self._backbone = backbone
        self._settings = settings
        self._metrics = metrics
        self._waiting: deque[_Entry] = deque()
        self._storing = 0
        self._bytes = 0
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()

    def add(
        self, outgoing: OutgoingRecord, link: MemberLink | None = None, done: Callable[[], None] | None = None
    ) -> None:
        """Have a record kept; `done` is called when it is durable."""
        self._waiting.append((outgoing, link, done, time.monotonic()))
        self._bytes += outgoing.size_bytes
        if link is not None:
            link.budget.staged += 1
            link.budget.staged_bytes += outgoing.size_bytes
        self._metrics.staged = len(self._waiting) + self._storing
        self._metrics.staged_bytes = self._bytes
        self._arrived.set()

    @property
    def is_full(self) -> bool:
        """Whether more than the bound waits."""
        settings = self._settings
        return (
            len(self._waiting) + self._storing >= settings.max_staged
            or self._bytes >= settings.max_staged_bytes
        )

    async def room(self, link: MemberLink) -> None:
        """Wait while too much waits, of all connections or of this one's key."""
        settings, budget = self._settings, link.budget
        while (
            self.is_full
            or budget.staged >= settings.max_staged_per_peer
            or budget.staged_bytes >= settings.max_staged_bytes_per_peer
        ):
            self._room.clear()
            await self._room.wait()

    async def drained(self) -> None:
        """Wait until everything that was added so far is durable."""
        while self._waiting or self._storing:
            self._room.clear()
            await self._room.wait()

    async def run(self) -> None:
        """Keep what is added, for ever."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            while self._waiting:
                count = min(len(self._waiting), self._settings.store_batch)
                batch = [self._waiting.popleft() for _ in range(count)]
                self._storing = count
                await self._backbone.put([outgoing for outgoing, *_ in batch])
                self._storing = 0
                now_s = time.monotonic()
                for outgoing, link, done, since_s in batch:
                    self._metrics.accept_latency.observe(now_s - since_s)
                    self._bytes -= outgoing.size_bytes
                    if link is not None:
                        link.budget.staged -= 1
                        link.budget.staged_bytes -= outgoing.size_bytes
                    if done is not None:
                        done()
                self._metrics.staged, self._metrics.staged_bytes = len(self._waiting), self._bytes
                self._room.set()
