"""What happens at a bounded rate: what one peer may use of a process, and log lines.

A broker that is away, or a peer, may cause the same line many times a second.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Hashable
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
