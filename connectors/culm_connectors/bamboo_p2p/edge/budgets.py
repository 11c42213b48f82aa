"""What one principal may use of an edge, over all of its connections: how many, bytes, and the worker's time.

Nobody is dropped for it: more connections are refused, and data is read later.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import Final

from culm_connectors.bamboo_p2p.edge.settings import BambooEdgeSettings
from culm_connectors.edge.rate_limit import TokenBucket

_MINUTE_S: Final = 60.0
_REMEMBERED: Final = 4_096


class PrincipalBudget:
    """The rates of one principal."""

    def __init__(self, settings: BambooEdgeSettings, now_s: float) -> None:
        per_minute = settings.connections_per_minute
        self.connections = 0
        """Those that are open."""
        self.begun = TokenBucket(per_minute / _MINUTE_S, max(1.0, per_minute), updated_s=now_s)
        self._bytes = TokenBucket(settings.bytes_per_second, settings.burst_bytes, updated_s=now_s)
        self._busy = TokenBucket(settings.busy_share, settings.busy_burst_s, updated_s=now_s)

    def wait_s(self, size: int, busy_s: float) -> float:
        """So many bytes came, and took so much of the worker's time: for how long nothing more is read."""
        now_s = time.monotonic()
        return max(self._bytes.wait_s(size, now_s), self._busy.wait_s(busy_s, now_s))


class PrincipalBudgets:
    """The budgets of all principals that are connected, and of the last thousands that were."""

    def __init__(self, settings: BambooEdgeSettings) -> None:
        self._settings = settings
        self._open: dict[str, PrincipalBudget] = {}
        self._left: OrderedDict[str, PrincipalBudget] = OrderedDict()

    def of(self, name: str) -> PrincipalBudget:
        """The budget of a principal."""
        found = self._open.get(name) or self._left.get(name)
        if found is None:
            found = PrincipalBudget(self._settings, time.monotonic())
            self._keep(name, found)
        return found

    def begin(self, name: str) -> bool:
        """One more connection of a principal, until `end`; False where it has too many, or too often."""
        budget = self.of(name)
        is_allowed = budget.connections < self._settings.max_connections_per_peer and budget.begun.take(
            1, time.monotonic()
        )
        if is_allowed:
            budget.connections += 1
            self._left.pop(name, None)
            self._open[name] = budget
        return is_allowed

    def end(self, name: str) -> None:
        """One of its connections has ended."""
        budget = self._open[name]
        budget.connections -= 1
        if not budget.connections:
            del self._open[name]
            self._keep(name, budget)

    def _keep(self, name: str, budget: PrincipalBudget) -> None:
        self._left[name] = budget
        if len(self._left) > _REMEMBERED:
            self._left.popitem(last=False)
