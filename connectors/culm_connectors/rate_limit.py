"""Rate limits: what one peer may use of a process, how fast it has to read, and how often a line is logged.

An unreachable broker, or a peer, may cause the same log line many times a second.
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

    Times are arguments, in seconds.
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
        """Take `count` tokens; returns how many seconds to wait before using them.

        The balance may become negative; the wait pays it off.
        """
        if self.rate == 0:
            return 0.0
        self._refill(now_s)
        self.tokens -= count
        return 0.0 if self.tokens >= 0 else -self.tokens / self.rate

    def take(self, count: float, now_s: float) -> bool:
        """Take `count` tokens if they are there; otherwise returns False and takes nothing."""
        if self.rate == 0:
            return True
        self._refill(now_s)
        if self.tokens < count:
            return False
        self.tokens -= count
        return True

    def put_back(self, count: float) -> None:
        """Return tokens that were taken and not used."""
        self.tokens += count

    def _refill(self, now_s: float) -> None:
        if now_s > self.updated_s:
            if self.updated_s:
                self.tokens = min(self.burst, self.tokens + (now_s - self.updated_s) * self.rate)
            self.updated_s = now_s


class TokenBuckets:
    """A token bucket for each name; the last `limit` names are remembered."""

    def __init__(self, rate: float, burst: float, limit: int) -> None:
        self._rate = rate
        self._burst = burst
        self._limit = limit
        self._buckets: OrderedDict[Hashable, TokenBucket] = OrderedDict()

    def of(self, name: Hashable) -> TokenBucket:
        """Return the bucket of a name."""
        bucket = self._buckets.pop(name, None) or TokenBucket(self._rate, self._burst)
        self._buckets[name] = bucket
        if len(self._buckets) > self._limit:
            self._buckets.popitem(last=False)
        return bucket


class LeastRate:
    """Minimum rate at which a peer has to read, with a grace period.

    The spare time is how long the peer may still read nothing. It begins with the grace period, falls as time
    passes, and rises with each byte that the peer reads, up to the grace period. It falls only while data
    waits that the system does not accept. Times are in seconds.
    """

    def __init__(self, bytes_per_second: float, grace_s: float) -> None:
        self.spare_s = grace_s
        self._bytes_per_second = bytes_per_second
        self._grace_s = grace_s
        self._taken_bytes = 0
        self._at_s = 0.0

    def begin(self, taken_bytes: int, now_s: float) -> None:
        """Start measuring, as data waits from now on; `taken_bytes` is the counter of bytes taken so far."""
        self._taken_bytes, self._at_s = taken_bytes, now_s

    def count(self, taken_bytes: int, now_s: float) -> float:
        """Update the spare time by the bytes taken since, and return it; at 0 the peer is too slow."""
        earned_s = (taken_bytes - self._taken_bytes) / self._bytes_per_second
        self.spare_s = min(self._grace_s, self.spare_s + earned_s - (now_s - self._at_s))
        self.begin(taken_bytes, now_s)
        return self.spare_s

    @asynccontextmanager
    async def required(self, taken_bytes: Callable[[], int]) -> AsyncIterator[None]:
        """Raise `TimeoutError` when the peer has become too slow, while the context waits for it."""
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
    """Logs each message at most once per interval; the next line states how many were left out.

    Messages are compared before their arguments are filled in. They are constants of the program, so there
    are few. For any thread.
    """

    def __init__(self, logger: logging.Logger, interval_s: float = INTERVAL_S) -> None:
        self._logger = logger
        self._interval_s = interval_s
        self._lock = threading.Lock()
        self._logged_s: dict[str, float] = {}
        self._left_out: dict[str, int] = {}

    def log(self, level: int, message: str, *args: object) -> None:
        """Log a message, or count it for the next line."""
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
