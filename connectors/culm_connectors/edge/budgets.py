"""Limits on what one principal may use of an edge, over all its connections, including closed ones.

Exceeding them drops no connection: further connections are refused, and further data is read later. Time is
an argument, in seconds of the monotonic clock.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, Generic, Protocol, TypeVar

from culm_connectors.rate_limit import TokenBucket

_MINUTE_S: Final = 60.0
_REMEMBERED: Final = 4_096


class OpenConnections:
    """Connections of one principal: limits on open ones and on new ones per minute; 0: unlimited."""

    def __init__(self, max_count: int = 0, per_minute: float = 0.0, now_s: float = 0.0) -> None:
        self.count = 0
        self._max_count = max_count
        self._begun = TokenBucket(per_minute / _MINUTE_S, max(1.0, per_minute), updated_s=now_s)

    def begin(self, now_s: float) -> bool:
        """Count a further connection; returns False, and does not count it, if a limit is reached."""
        is_allowed = not 0 < self._max_count <= self.count and self._begun.take(1, now_s)
        self.count += is_allowed
        return is_allowed


class PrincipalLimits(Protocol):
    """Limits on one principal, from the settings of an edge."""

    @property
    def max_connections_per_peer(self) -> int:
        """Connections that may be open at once."""

    @property
    def connections_per_minute(self) -> float:
        """New connections per minute; 0: unlimited."""

    @property
    def bytes_per_second(self) -> float:
        """Bytes read per second over all connections; 0: unlimited."""

    @property
    def burst_bytes(self) -> float:
        """Bytes that may be read at once after a pause."""


class PrincipalBudget:
    """The connections of one principal, and the bytes that it may send."""

    def __init__(self, limits: PrincipalLimits, now_s: float) -> None:
        self.connections = OpenConnections(
            limits.max_connections_per_peer, limits.connections_per_minute, now_s
        )
        self._bytes = TokenBucket(limits.bytes_per_second, limits.burst_bytes, updated_s=now_s)

    def wait_s(self, now_s: float, size: int) -> float:
        """Count received bytes; returns for how many seconds nothing more may be read."""
        return self._bytes.wait_s(size, now_s)


class PrincipalState(Protocol):
    """The state that is kept for a principal."""

    @property
    def connections(self) -> OpenConnections:
        """Return its connections."""


Name = TypeVar("Name", bound=Hashable)
Kept = TypeVar("Kept", bound=PrincipalState)


class RememberedBudgets(Generic[Name, Kept]):
    """The budgets of all connected principals, and of the last thousands that were connected.

    A principal that returns continues with what it had left. A budget is forgotten after enough others have
    come: a new key costs nothing, so strangers in total are limited by the transport and the overall limits.
    """

    def __init__(self, make: Callable[[float], Kept], *, remembered: int = _REMEMBERED) -> None:
        """`make` is called with the time. `remembered`: how many budgets are kept that are not connected."""
        self._make = make
        self._remembered = remembered
        self._open: dict[Name, Kept] = {}
        self._left: OrderedDict[Name, Kept] = OrderedDict()

    def of(self, name: Name, now_s: float) -> Kept:
        """Return the budget of a principal, for connections in either direction."""
        budget = self._open.get(name) or self._left.get(name)
        if budget is None:
            budget = self._make(now_s)
            self._leave(name, budget)
        return budget

    def begin(self, name: Name, now_s: float) -> Kept | None:
        """Return the budget of a principal for a further connection, until `end`; None if it has too many."""
        budget = self.of(name, now_s)
        if not budget.connections.begin(now_s):
            return None
        self._left.pop(name, None)
        self._open[name] = budget
        return budget

    def end(self, name: Name) -> None:
        """Count an ended connection of a principal."""
        budget = self._open[name]
        budget.connections.count -= 1
        if not budget.connections.count:
            del self._open[name]
            self._leave(name, budget)

    def _leave(self, name: Name, budget: Kept) -> None:
        self._left[name] = budget
        if len(self._left) > self._remembered:
            self._left.popitem(last=False)
