"""The time of a participant's timers: it passes while others can be reached, whatever the wall clock does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

_LATE_MS: Final = 10_000
"""Milliseconds by which the time may pass what is due before that is done."""


def elapsed_ms() -> int:
    """Milliseconds on a clock that nobody sets; while the machine is suspended it stands still."""
    return time.monotonic_ns() // 1_000_000


class PassingTime:
    """Milliseconds from `start_ms` on, of the time between `run` and `stop`.

    It does not pass by what is due: where a process was stopped for hours, and its clock was not, that is
    done late, and what follows it later.
    """

    def __init__(self, start_ms: int, elapsed_ms: Callable[[], int] = elapsed_ms) -> None:
        self._now_ms = start_ms
        self._elapsed_ms = elapsed_ms
        self._passed_ms = 0
        self._running_since_ms: int | None = None

    def run(self) -> None:
        """Time passes from now on."""
        if self._running_since_ms is None:
            self._running_since_ms = self._elapsed_ms()

    def stop(self) -> None:
        """Time stands still from now on."""
        self._count()
        self._running_since_ms = None

    def advance(self, due_ms: int | None) -> int:
        """Return the time now, where `due_ms` is when there is something to do next."""
        self._count()
        if due_ms is not None:
            self._passed_ms = min(self._passed_ms, max(due_ms - self._now_ms, 0) + _LATE_MS)
        self._now_ms += self._passed_ms
        self._passed_ms = 0
        return self._now_ms

    def _count(self) -> None:
        if self._running_since_ms is not None:
            elapsed_ms = self._elapsed_ms()
            self._passed_ms += elapsed_ms - self._running_since_ms
            self._running_since_ms = elapsed_ms
