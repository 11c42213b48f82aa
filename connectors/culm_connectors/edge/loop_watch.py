"""How long single turns of the event loop keep everybody else waiting.

A turn that computes for long delays every connection. It is told apart from a machine that is merely busy by
what it costs: only the processor time that the loop's own thread used while its timer was overdue counts.
"""

from __future__ import annotations

import asyncio
import time

from prometheus_client import Histogram

_INTERVAL_S = 0.02
_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class LoopWatch:
    """Measures while `run` runs; `blocked` holds seconds, one observation a timer (50 a second at rest)."""

    def __init__(self) -> None:
        self.blocked = Histogram(
            "culm_event_loop_blocked_seconds",
            "processor time by which the event loop was late for a timer",
            buckets=_BUCKETS_S,
            registry=None,
        )

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            begun_s, used_s = time.monotonic(), time.thread_time()
            await asyncio.sleep(_INTERVAL_S)
            late_s = time.monotonic() - begun_s - _INTERVAL_S
            self.blocked.observe(max(0.0, min(late_s, time.thread_time() - used_s)))
