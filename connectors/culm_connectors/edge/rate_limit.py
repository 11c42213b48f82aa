"""Token buckets: how much of a process one peer may use. Time is an argument, in seconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class TokenBucket:
    """Allows `rate` tokens a second on average and `burst` at once; a rate of 0 allows everything."""

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

    def _refill(self, now_s: float) -> None:
        if now_s > self.updated_s:
            if self.updated_s:
                self.tokens = min(self.burst, self.tokens + (now_s - self.updated_s) * self.rate)
            self.updated_s = now_s
