"""How long to wait before trying again: longer after every failure, and never all at the same moment."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

FIRST_PAUSE_S = 0.25
MAX_PAUSE_S = 30.0
_GROWTH = 2.0
# Peers that lost the same server must not all come back at once.
_JITTER = (0.5, 1.0)


@dataclass(slots=True)
class Backoff:
    """Pauses between attempts at one thing: from `first_s`, doubled each time up to `max_s`, with jitter."""

    first_s: float = FIRST_PAUSE_S
    max_s: float = MAX_PAUSE_S
    uniform: Callable[[float, float], float] = random.uniform
    failures: int = 0
    """Pauses since the last success."""

    def __post_init__(self) -> None:
        assert 0 < self.first_s <= self.max_s, "a pause has a length, and grows"

    def pause_s(self) -> float:
        """The next pause."""
        # Beyond some hundred doublings a float is no number any more.
        full_s = self.first_s * _GROWTH ** min(self.failures, 64)
        self.failures += 1
        return min(self.max_s, full_s) * self.uniform(*_JITTER)

    def succeeded(self) -> None:
        """It went well: the next failure is the first one again."""
        self.failures = 0
