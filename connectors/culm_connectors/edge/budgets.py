"""What one principal may use of an edge, over all of its connections and beyond the end of the last.

Nobody is dropped for it: more connections are refused, and more data is read later. Time is an argument, in
seconds by the monotonic clock.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, Generic, Protocol, TypeVar

from culm_connectors.rate_limit import TokenBucket

_MINUTE_S: Final = 60.0
_REMEMBERED: Final = 4_096


class OpenConnections:
    """Those of one principal: so many at once, and so many begun a minute; 0: any."""

    def __init__(self, max_count: int = 0, per_minute: float = 0.0, now_s: float = 0.0) -> None:
        self.count = 0
        self._max_count = max_count
        self._begun = TokenBucket(per_minute / _MINUTE_S, max(1.0, per_minute), updated_s=now_s)

    def begin(self, now_s: float) -> bool:
        """One more, until it is counted off; False where there are too many, or too often."""
        is_allowed = not 0 < self._max_count <= self.count and self._begun.take(1, now_s)
        self.count += is_allowed
        return is_allowed


class PrincipalLimits(Protocol):
    """What settings of an edge say of one principal."""

    @property
    def max_connections_per_peer(self) -> int:
        """At once."""

    @property
    def connections_per_minute(self) -> float:
        """Begun; 0: any."""

    @property
    def bytes_per_second(self) -> float:
        """Read of all its connections together; 0: any."""

    @property
    def burst_bytes(self) -> float:
        """What of them may be saved up."""


class PrincipalBudget:
    """The connections of one principal, and what it may send."""

    def __init__(self, limits: PrincipalLimits, now_s: float) -> None:
        self.connections = OpenConnections(
            limits.max_connections_per_peer, limits.connections_per_minute, now_s
        )
        self._bytes = TokenBucket(limits.bytes_per_second, limits.burst_bytes, updated_s=now_s)

    def wait_s(self, now_s: float, size: int) -> float:
        """So many bytes came: for how long nothing more is read."""
        return self._bytes.wait_s(size, now_s)


class Remembered(Protocol):
    """What is kept of a principal."""

    @property
    def connections(self) -> OpenConnections:
        """Those that it has."""


Name = TypeVar("Name", bound=Hashable)
Kept = TypeVar("Kept", bound=Remembered)


class RememberedBudgets(Generic[Name, Kept]):
    """The budgets of all principals that are connected, and of the last thousands that were.

    Who comes again goes on with what it had left. A budget is forgotten when others have come since: a key
    costs nothing to make, so what bounds strangers altogether is the transport and the totals.
    """

    def __init__(self, make: Callable[[float], Kept], *, remembered: int = _REMEMBERED) -> None:
        """`make` is called with the time. `remembered`: how many are kept that are not connected."""
        self._make = make
        self._remembered = remembered
        self._open: dict[Name, Kept] = {}
        self._left: OrderedDict[Name, Kept] = OrderedDict()

    def of(self, name: Name, now_s: float) -> Kept:
        """The budget of a principal, whether it has called or is called."""
        found = self._open.get(name) or self._left.get(name)
        if found is None:
            found = self._make(now_s)
            self._leave(name, found)
        return found

    def begin(self, name: Name, now_s: float) -> Kept | None:
        """The budget of a principal for one more connection, until `end`; None where it has too many."""
        budget = self.of(name, now_s)
        if not budget.connections.begin(now_s):
            return None
        self._left.pop(name, None)
        self._open[name] = budget
        return budget

    def end(self, name: Name) -> None:
        """One of its connections has ended."""
        budget = self._open[name]
        budget.connections.count -= 1
        if not budget.connections.count:
            del self._open[name]
            self._leave(name, budget)

    def _leave(self, name: Name, budget: Kept) -> None:
        self._left[name] = budget
        if len(self._left) > self._remembered:
            self._left.popitem(last=False)
