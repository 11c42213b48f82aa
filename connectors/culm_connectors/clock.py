"""A clock that nobody sets: the wall clock when this process started, plus the time that has passed since.

Ages and waiting times use it: if the wall clock jumped by a day, everything would be dropped at once or kept
for a day longer. Times that other machines read, and times until which a right is valid, use the wall clock.
"""

from __future__ import annotations

import time


def wall_ms() -> int:
    """Return the wall-clock time in milliseconds."""
    return time.time_ns() // 1_000_000


def steady_ms() -> int:
    """Return milliseconds since the epoch, by the clock that nobody sets."""
    return _STARTED_MS + time.monotonic_ns() // 1_000_000


def steady_s() -> float:
    """Return seconds since the epoch, by the clock that nobody sets."""
    return steady_ms() / 1000


_STARTED_MS = wall_ms() - time.monotonic_ns() // 1_000_000
