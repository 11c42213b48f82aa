"""Rates from totals that only grow, and whether a lag fails to shrink."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Final

_SAMPLES: Final = 6
_WATCHED_S: Final = 60.0
_GROWING_AFTER_S: Final = 30.0
LAG_RECORDS: Final = 1_000
"""Smaller lags are no reason to look."""


Name = Any
"""Name of a total: anything that can be a key."""


class Rates:
    """Rates per second over the latest samples of several totals."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, Mapping[Name, float]]] = deque(maxlen=_SAMPLES)

    def add(self, now_s: float, totals: Mapping[Name, float]) -> None:
        """Add a sample; smaller totals than before begin anew, as after a restart."""
        if self._samples:
            latest = self._samples[-1][1]
            if any(value < latest.get(name, 0) for name, value in totals.items()):
                self._samples.clear()
        self._samples.append((now_s, totals))

    def clear(self) -> None:
        """Forget all samples."""
        self._samples.clear()

    def of(self, name: Name) -> float | None:
        """Return the rate of a total; None until there are two samples of it."""
        samples = [(at_s, totals[name]) for at_s, totals in self._samples if name in totals]
        if len(samples) < 2:
            return None
        (first_s, first), (last_s, last) = samples[0], samples[-1]
        return round((last - first) / (last_s - first_s), 3) if last_s > first_s else None


class LagWatch:
    """Tells for how long a lag has not shrunk."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque()

    def add(self, now_s: float, lag: int | None) -> None:
        """Add a sample; an unknown lag begins anew."""
        if lag is None:
            self._samples.clear()
            return
        self._samples.append((now_s, lag))
        while now_s - self._samples[0][0] > _WATCHED_S:
            self._samples.popleft()

    @property
    def grows(self) -> bool:
        """Whether a lag that matters is at least as large as it was half a minute ago."""
        if not self._samples:
            return False
        (first_s, first), (last_s, last) = self._samples[0], self._samples[-1]
        return last >= LAG_RECORDS and last >= first and last_s - first_s >= _GROWING_AFTER_S
