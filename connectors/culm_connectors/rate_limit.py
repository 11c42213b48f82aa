"""Rates with bounds: what one peer may use of a process, how fast it has to read, and log lines.

A broker that is away, or a peer, may cause the same line many times a second.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass


@dataclass(slots=True)
class TokenBucket:
    """Allows `rate` tokens a second on average and `burst` at once; a rate of 0 allows everything.

    Time is an argument, in seconds.
    """

    rate: float
    burst: float
    tokens: float = -1.0
    updated_s: float = 0.0

    def __post_init__(self) -> None:
        assert self.rate >= 0 and self.burst > 0, "a bucket has a rate and holds something"
        if self.tokens < 0:
            self.tokens = self.burst

    def wait_s(self, count: float, now_s: float) -> float:
        """Take `count` tokens and say how long to wait before using them; debt is paid by waiting."""
        if self.rate == 0:
            return 0.0
        self._refill(now_s)
        self.tokens -= count
        return 0.0 if self.tokens >= 0 else -self.tokens / self.rate

    def take(self, count: float, now_s: float) -> bool:
        """Take `count` tokens if they are there; False when they are not, and nothing is taken."""
        if self.rate == 0:
            return True
        self._refill(now_s)
        if self.tokens < count:
            return False
        self.tokens -= count
        return True

    def put_back(self, count: float) -> None:
        """Return tokens that were taken and are not used."""
        self.tokens += count

    def _refill(self, now_s: float) -> None:
        if now_s > self.updated_s:
            if self.updated_s:
                self.tokens = min(self.burst, self.tokens + (now_s - self.updated_s) * self.rate)
            self.updated_s = now_s


class TokenBuckets:
    """A token bucket for each name; those of the last `limit` names are remembered."""

    def __init__(self, rate: float, burst: float, limit: int) -> None:
        self._rate = rate
        self._burst = burst
        self._limit = limit
        self._buckets: OrderedDict[Hashable, TokenBucket] = OrderedDict()

    def of(self, name: Hashable) -> TokenBucket:
        """The bucket of a name."""
        bucket = self._buckets.pop(name, None) or TokenBucket(self._rate, self._burst)
        self._buckets[name] = bucket
        if len(self._buckets) > self._limit:
            self._buckets.popitem(last=False)
        return bucket


class LeastRate:
    """For how long a peer may still take nothing: the grace at first, less what it takes, more for each byte.

    It counts only while something waits that the system does not take. Times are in seconds.
    """

    def __init__(self, bytes_per_second: float, grace_s: float) -> None:
        self.spare_s = grace_s
        self._bytes_per_second = bytes_per_second
        self._grace_s = grace_s
        self._taken_bytes = 0
        self._at_s = 0.0

    def begin(self, taken_bytes: int, now_s: float) -> None:
        """Something waits from now on; `taken_bytes` is a counter of what was taken."""
        self._taken_bytes, self._at_s = taken_bytes, now_s

    def count(self, taken_bytes: int, now_s: float) -> float:
        """Look at what was taken meanwhile: the spare time that is left. Without any, it is too slow."""
        earned_s = (taken_bytes - self._taken_bytes) / self._bytes_per_second
        self.spare_s = min(self._grace_s, self.spare_s + earned_s - (now_s - self._at_s))
        self.begin(taken_bytes, now_s)
        return self.spare_s

    @asynccontextmanager
    async def required(self, taken_bytes: Callable[[], int]) -> AsyncIterator[None]:
        """Raise TimeoutError when the peer has become too slow, while the context waits for it."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(None) as limit:

            def look() -> None:
                spare_s = self.count(taken_bytes(), loop.time())
                if spare_s <= 0:
                    limit.reschedule(loop.time())
                else:
                    handles[:] = [loop.call_later(spare_s, look)]

            self.begin(taken_bytes(), loop.time())
            handles = [loop.call_later(max(0.0, self.spare_s), look)]
            try:
                yield
                self.count(taken_bytes(), loop.time())
            finally:
                handles[0].cancel()


INTERVAL_S = 1.0


class LimitedLog:
    """Of each message (before its arguments are filled in) one line an interval; the next names how many
    were left out. For any thread; messages are constants of the program, so there are few.
    """

    def __init__(self, logger: logging.Logger, interval_s: float = INTERVAL_S) -> None:
        self._logger = logger
        self._interval_s = interval_s
        self._lock = threading.Lock()
        self._logged_s: dict[str, float] = {}
        self._left_out: dict[str, int] = {}

    def log(self, level: int, message: str, *args: object) -> None:
        """Log it, or count it for the next line."""
        now_s = time.monotonic()
        with self._lock:
            last_s = self._logged_s.get(message)
            if last_s is not None and now_s - last_s < self._interval_s:
                self._left_out[message] = self._left_out.get(message, 0) + 1
                return
            self._logged_s[message] = now_s
            left_out = self._left_out.pop(message, 0)
        if left_out:
            self._logger.log(level, f"{message} (and %d more like this)", *args, left_out)
        else:
            self._logger.log(level, message, *args)

    def warning(self, message: str, *args: object) -> None:
        """Log a warning, or count it."""
        self.log(logging.WARNING, message, *args)
