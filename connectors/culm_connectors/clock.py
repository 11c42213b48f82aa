"""The time by a clock that nobody sets: the wall clock when this process started, and what passed since.

Ages of what is kept and times to wait go by it: a wall clock that jumps by a day would drop everything at
once, or keep it for a day longer. What other machines read, and what says until when a right is valid, goes
by the wall clock.
"""

from __future__ import annotations

import time


def wall_ms() -> int:
    """Wall-clock time in milliseconds."""
    return time.time_ns() // 1_000_000


def steady_ms() -> int:
    """Milliseconds since the epoch, by the clock that nobody sets."""
    return _STARTED_MS + time.monotonic_ns() // 1_000_000


def steady_s() -> float:
    """Seconds since the epoch, by the clock that nobody sets."""
    return steady_ms() / 1000


_STARTED_MS = wall_ms() - time.monotonic_ns() // 1_000_000
