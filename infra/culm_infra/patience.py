"""Waiting in commands, demos and tests: as long as something changes, or for an interrupt."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable

from culm_infra.errors import NotReached


class Patience:
    """A limit on the time without changes. `progress` returns a value that changes while work goes on."""

    def __init__(
        self,
        limit_s: float,
        progress: Callable[[], object],
        *,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limit_s = limit_s
        self._progress = progress
        self._clock_s = clock_s
        self._seen = progress()
        self._changed_s = clock_s()

    def is_over(self) -> bool:
        """Check for changes. Returns true if nothing has changed for longer than the limit."""
        now_s = self._clock_s()
        if (seen := self._progress()) != self._seen:
            self._seen, self._changed_s = seen, now_s
            return False
        return now_s - self._changed_s > self._limit_s

    def check(self, what: str | Callable[[], str]) -> None:
        """Raise `NotReached` if nothing has changed for longer than the limit."""
        if self.is_over():
            what = what if isinstance(what, str) else what()
            raise NotReached(f"not reached in time: {what}; nothing changed for {self._limit_s:.0f} s")


def interrupted() -> asyncio.Event:
    """Return an event that SIGINT and SIGTERM set from now on."""
    event = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, event.set)
    return event
