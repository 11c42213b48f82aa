"""Turns to read the past: a bounded number at a time, one a key, and none of them waits for a peer.

Who holds a turn reads from Kafka into memory. Who waits until its peer has read what it was sent gives the
turn up first, and takes another one for what comes next.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

from culm_connectors.sds.budgets import PeerBudget


class Turn:
    """A turn that has been taken."""

    def __init__(self, turns: ReplayLimiter) -> None:
        self._turns = turns
        self._began_s = time.monotonic()

    @property
    def is_over(self) -> bool:
        """Whether it has lasted long enough while others wait."""
        turns = self._turns
        return turns.waiting > 0 and time.monotonic() - self._began_s >= turns.slice_s


class ReplayLimiter:
    """At most `count` turns at a time, in the order in which they were asked for."""

    def __init__(self, count: int, slice_s: float) -> None:
        self.slice_s = slice_s
        self.waiting = 0
        """Number of keys that wait for a turn; channels of one key wait for each other first."""
        self._places = asyncio.Semaphore(count)

    @contextlib.asynccontextmanager
    async def turn(self, budget: PeerBudget) -> AsyncIterator[Turn]:
        """Wait for a turn of this key, and hold it."""
        async with budget.catching_up:
            self.waiting += 1
            try:
                await self._places.acquire()
            finally:
                self.waiting -= 1
            try:
                yield Turn(self)
            finally:
                self._places.release()
