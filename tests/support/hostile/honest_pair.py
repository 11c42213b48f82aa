"""An honest pair: a member publishes items, and another one receives them."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from tests.support.deployment.full_edge import FullEdge
from tests.support.process.waiting import until

ARRIVAL_TIMEOUT_S: Final = 120.0
LOOK_S: Final = 0.02
_PAUSE_S: Final = 0.1
Places = tuple[FullEdge, FullEdge]
"""The connectors that the first and the second member call."""


async def _always() -> bool:
    return True


@dataclass(slots=True)
class HonestPair:
    """Two members; `publish` makes one item at the first, and names it."""

    publish: Callable[[], Awaitable[Hashable]]
    same_state: Callable[[], Awaitable[bool]] = field(default=_always)
    """Whether both members hold the same, as far as their stores can be compared."""
    arrived_s: dict[Hashable, float] = field(default_factory=dict)
    """When an item came to the second member, by the monotonic clock."""
    arrivals: Counter[Hashable] = field(default_factory=Counter)
    """How often each item came to the second member."""
    traces: dict[Hashable, bytes] = field(default_factory=dict)
    """Bytes of each item, by which it is found in a record of Kafka's."""

    def arrived(self, item: Hashable) -> None:
        """An item is at the second member."""
        self.arrived_s.setdefault(item, time.monotonic())
        self.arrivals[item] += 1

    async def latencies(self, seconds: float) -> list[float]:
        """Publish for so long, and at least once: the seconds that each item took, once all have come."""
        sent_s: dict[Hashable, float] = {}
        end_s = time.monotonic() + seconds
        while not sent_s or time.monotonic() < end_s:
            at_s = time.monotonic()
            sent_s[await self.publish()] = at_s
            await asyncio.sleep(_PAUSE_S)
        await until(
            lambda: sent_s.keys() <= self.arrived_s.keys(),
            "all items at the second member",
            limit_s=ARRIVAL_TIMEOUT_S,
            progress=lambda: len(self.arrived_s),
        )
        return sorted(self.arrived_s[item] - at_s for item, at_s in sent_s.items())


@asynccontextmanager
async def connected(pair: HonestPair, *work: Coroutine[Any, Any, object]) -> AsyncIterator[None]:
    """Run the members' work in tasks until the context ends; it begins once a first item has arrived."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        first = await pair.publish()
        await until(lambda: first in pair.arrived_s, limit_s=ARRIVAL_TIMEOUT_S)
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
