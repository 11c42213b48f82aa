"""Produces what peers sent to Kafka, and reports when Kafka has acknowledged it.

A protocol contributes an `IntakeOutbox` for each kind of batch. A batch stays in its outbox until Kafka has
acknowledged all of it, so everything that a crash interrupts is produced again.

A `MemoryOutbox` is a bounded queue of items that `store` makes durable, in order. While it is full,
`wait_for_capacity` holds up connections: all of them, or those of the owner whose share is full.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

from culm_connectors.edge.protocol_metrics import Durations, ProtocolMetrics

Batch = TypeVar("Batch")


class IntakeOutbox(Protocol[Batch]):
    """Keeps items that wait for Kafka."""

    async def take(self) -> Batch | None:
        """Return the next batch, or None if nothing is due."""
        ...

    async def produce(self, batch: Batch) -> Batch:
        """Produce a batch; returns the part that is done, the rest is taken again. Raises `ProduceFailed`."""
        ...

    async def acknowledged(self, batch: Batch) -> Iterable[float]:
        """Drop a batch that Kafka has; returns for how many seconds each of its items has waited."""
        ...


class Intake:
    """Produces the due batches of some outboxes, which belong to one store.

    The batches of one outbox go one after another, in the order of `take`; there is no order between
    outboxes.
    """

    def __init__(self, latency: Durations) -> None:
        self._latency = latency
        self._outboxes: list[tuple[IntakeOutbox[Any], asyncio.Event]] = []
        self._busy: set[int] = set()
        self._changed = asyncio.Condition()

    def add(self, outbox: IntakeOutbox[Batch]) -> None:
        """Add an outbox to be emptied; called before `run`."""
        due = asyncio.Event()
        # An earlier process may have left something.
        due.set()
        self._outboxes.append((outbox, due))

    def wake(self) -> None:
        """Wake all outboxes, as something may be due."""
        for _, due in self._outboxes:
            due.set()

    async def run(self) -> None:
        """Produce due batches until cancelled. Raises `ProduceFailed`, and the errors of the outboxes.

        Errors of several outboxes come in a group, as those of tasks do.
        """
        if len(self._outboxes) == 1:
            await self._empty(0)
        else:
            async with asyncio.TaskGroup() as group:
                for number in range(len(self._outboxes)):
                    group.create_task(self._empty(number))

    async def wait_until(self, holds: Callable[[], bool]) -> None:
        """Wait until a condition holds; it is evaluated whenever Kafka has acknowledged something."""
        if not holds():
            async with self._changed:
                await self._changed.wait_for(holds)

    async def wait_until_idle(self) -> None:
        """Wait until Kafka has everything that was due."""
        await self.wait_until(lambda: not self._busy and not any(due.is_set() for _, due in self._outboxes))

    async def _empty(self, number: int) -> None:
        outbox, due = self._outboxes[number]
        while True:
            await due.wait()
            self._busy.add(number)
            due.clear()
            while (batch := await outbox.take()) is not None:
                for waited_s in await outbox.acknowledged(await outbox.produce(batch)):
                    self._latency.observe(waited_s)
                await self._notify()
            self._busy.discard(number)
            await self._notify()

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()


Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class IntakeLimits:
    """Limits on waiting items: more is accepted only below both; one item may exceed the bytes."""

    items: int
    size_bytes: int


@dataclass(slots=True, eq=False)
class Share:
    """Items that one owner has waiting, and their bytes."""

    items: int = 0
    size_bytes: int = 0

    def is_below(self, bounds: IntakeLimits) -> bool:
        """Return whether its owner may send more."""
        return self.items < bounds.items and self.size_bytes < bounds.size_bytes


@dataclass(frozen=True, slots=True)
class _Waiting(Generic[Item]):
    item: Item
    size_bytes: int
    share: Share | None
    since_s: float


_ANY: Final = IntakeLimits(2**63, 2**63)


class MemoryOutbox(Generic[Item]):
    """Queue in memory; implements `IntakeOutbox`. `run` must be running; an error of `store` ends it."""

    def __init__(
        self,
        store: Callable[[Sequence[Item]], Awaitable[None]],
        metrics: ProtocolMetrics,
        bounds: IntakeLimits,
        batch: IntakeLimits,
        share: IntakeLimits = _ANY,
    ) -> None:
        """`store` returns when a batch is durable. `share`: the limits on what one owner has waiting."""
        self._store = store
        self._metrics = metrics
        self._bounds = bounds
        self._batch = batch
        self._share = share
        self._total = Share()
        self._waiting: deque[_Waiting[Item]] = deque()
        self._added = self._stored = 0
        self._intake = Intake(metrics.accept_latency)
        self._intake.add(self)

    def add(self, items: Iterable[tuple[Item, int]], share: Share | None = None) -> None:
        """Queue items with their sizes in bytes, in this order, after all that were added before."""
        now_s = time.monotonic()
        for item, size_bytes in items:
            self._waiting.append(_Waiting(item, size_bytes, share, now_s))
            self._added += 1
            _change(self._total, 1, size_bytes)
            if share is not None:
                _change(share, 1, size_bytes)
        self._measure()
        self._intake.wake()

    @property
    def is_full(self) -> bool:
        """Return whether nothing more is accepted from any owner."""
        return not self._total.is_below(self._bounds)

    async def wait_for_capacity(self, share: Share | None = None) -> None:
        """Wait while too much is waiting, of all owners or of this one."""
        await self._intake.wait_until(
            lambda: not self.is_full and (share is None or share.is_below(self._share))
        )

    async def drained(self) -> None:
        """Wait until everything that was added so far is durable."""
        last = self._added
        await self._intake.wait_until(lambda: self._stored >= last)

    async def run(self) -> None:
        """Store added items, until cancelled."""
        await self._intake.run()

    async def take(self) -> list[_Waiting[Item]] | None:
        """Return the next items, at least one if any are waiting, or None."""
        batch: list[_Waiting[Item]] = []
        left = self._batch.size_bytes
        while self._waiting and len(batch) < self._batch.items:
            left -= self._waiting[0].size_bytes
            if batch and left < 0:
                break
            batch.append(self._waiting.popleft())
        return batch or None

    async def produce(self, batch: list[_Waiting[Item]]) -> list[_Waiting[Item]]:
        """Store a batch; returns it."""
        await self._store([waiting.item for waiting in batch])
        return batch

    async def acknowledged(self, batch: list[_Waiting[Item]]) -> Sequence[float]:
        """Stop counting a batch that is durable; returns for how many seconds each item has waited."""
        for waiting in batch:
            _change(self._total, -1, -waiting.size_bytes)
            if waiting.share is not None:
                _change(waiting.share, -1, -waiting.size_bytes)
        self._stored += len(batch)
        self._measure()
        now_s = time.monotonic()
        return [now_s - waiting.since_s for waiting in batch]

    def _measure(self) -> None:
        self._metrics.staged, self._metrics.staged_bytes = self._total.items, self._total.size_bytes


def _change(share: Share, items: int, size_bytes: int) -> None:
    share.items += items
    share.size_bytes += size_bytes
