"""Produces what peers sent, and says when Kafka has acknowledged it.

A protocol contributes an `Outbox` for each kind of batch. A batch stays in its outbox until Kafka has
acknowledged all of it, so whatever a crash interrupts is produced again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

from culm_connectors.edge.protocol_metrics import Durations

Batch = TypeVar("Batch")


class Outbox(Protocol[Batch]):
    """Keeps what waits for Kafka."""

    async def take(self) -> Batch | None:
        """Return the next batch, None where nothing is due."""
        ...

    async def produce(self, batch: Batch) -> Batch:
        """Produce a batch; return what of it is done, the rest is taken again. Raises `ProduceFailed`."""
        ...

    async def acknowledged(self, batch: Batch) -> Iterable[float]:
        """Drop a batch that Kafka has; return for how many seconds each of its items has waited."""
        ...


class Intake:
    """Produces what is due of some outboxes, those of one store.

    The batches of one outbox go one after another, in the order of `take`; nothing is promised between two.
    """

    def __init__(self, latency: Durations) -> None:
        self._latency = latency
        self._outboxes: list[tuple[Outbox[Any], asyncio.Event]] = []
        self._busy: set[int] = set()
        self._changed = asyncio.Condition()

    def add(self, outbox: Outbox[Batch]) -> None:
        """Have an outbox emptied; called before `run`."""
        due = asyncio.Event()
        # An earlier process may have left something.
        due.set()
        self._outboxes.append((outbox, due))

    def wake(self) -> None:
        """Say that something may be due."""
        for _, due in self._outboxes:
            due.set()

    async def run(self) -> None:
        """Produce what is due until cancelled. Raises `ProduceFailed`, and what the outboxes do.

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
        """Wait until Kafka has all that was due."""
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
