"""Requests by their ids, as each channel uses them (R10, R41).

On the control channel, an id names its latest use. On the data channel, it names the oldest use whose last
data message has not arrived: earlier uses of an id wait here for it, and so do lost proposals that the other
end had cancelled already.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo.range_set import RangeSet
from culm_models.bamboo_p2p.requests.request import Request


@dataclass(slots=True)
class Tombstone:
    """A proposal of the other end that lost to an own one. Messages about it may still arrive (R41)."""

    winner_order: int
    cancel_ignored: bool = False


class RequestTable:
    """The requests of one connection."""

    __slots__ = ("_by_log", "_ends_owed", "active", "former", "tombstones")

    def __init__(self) -> None:
        self.active: dict[int, Request] = {}
        self.former: dict[int, deque[Request | None]] = {}
        """Earlier uses by id, oldest first; None for a lost proposal that only awaits its last data."""
        self.tombstones: dict[int, Tombstone] = {}
        self._by_log: dict[LogKey, list[Request]] = {}
        self._ends_owed = 0

    def add(self, request: Request) -> None:
        """Add a new request. An earlier use of its id now waits for its last data message."""
        former = self.active.get(request.id)
        if former is not None:
            self.former.setdefault(request.id, deque()).append(former)
        self.active[request.id] = request
        self._by_log.setdefault(request.log, []).append(request)

    def remove(self, request: Request) -> None:
        """Remove a request that is freed or lost."""
        if self.active.get(request.id) is request:
            del self.active[request.id]
        else:
            uses = self.former[request.id]
            uses.remove(request)
            if not uses:
                del self.former[request.id]
        of_log = self._by_log[request.log]
        of_log.remove(request)
        if not of_log:
            del self._by_log[request.log]

    def of_data(self, request_id: int) -> Request | None:
        """Return the request that data with this id belongs to: the oldest without its last data message."""
        for former in self.former.get(request_id, ()):
            if former is not None:
                return former
        return self.active.get(request_id)

    def of_log(self, log: LogKey) -> tuple[Request, ...]:
        """Return the requests for a log."""
        return tuple(self._by_log.get(log, ()))

    def __iter__(self) -> Iterator[Request]:
        """Iterate over all requests, including earlier uses of ids, in no particular order."""
        for uses in self.former.values():
            yield from (former for former in uses if former is not None)
        yield from self.active.values()

    def bury(self, request_id: int, winner: Request) -> None:
        """Record that a proposal of the other end lost to `winner`. An earlier use of its id stays."""
        former = self.active.pop(request_id, None)
        if former is not None:
            self.former.setdefault(request_id, deque()).append(former)
        self.tombstones[request_id] = Tombstone(winner.order)

    def ignore_cancel(self, request_id: int, tombstone: Tombstone) -> None:
        """Record that the other end cancelled a lost proposal, so that its last data message will follow."""
        tombstone.cancel_ignored = True
        self._ends_owed += 1
        self.former.setdefault(request_id, deque()).append(None)

    @property
    def lost(self) -> int:
        """Number of lost proposals with possible further messages, plus expected last data messages."""
        return len(self.tombstones) + self._ends_owed

    def end_tombstones(self, order: int) -> None:
        """Drop the tombstones of all winners up to this order.

        The other end has answered the own proposal of this order, so it has read all earlier ones.
        """
        for request_id in [key for key, stone in self.tombstones.items() if stone.winner_order <= order]:
            del self.tombstones[request_id]

    def ignored_end_came(self, request_id: int) -> bool:
        """Whether the oldest use of the id is a lost proposal. If so, that use is removed."""
        uses = self.former.get(request_id)
        if not uses or uses[0] is not None:
            return False
        uses.popleft()
        self._ends_owed -= 1
        if not uses:
            del self.former[request_id]
        return True


KNOWN_RUNS_MAX: Final = 16_384


class MetadataAtOther:
    """Entries whose metadata the other end holds, as runs by log (at most about 400 bytes each).

    Payloads of payload-only requests may be sent only for these entries. An end may name ever more logs and
    numbers in successive requests. If there are too many runs, logs without a request are forgotten first.
    Payloads of forgotten entries are sent once the metadata is claimed again.
    """

    __slots__ = ("_logs", "_requests", "_runs")

    def __init__(self, requests: RequestTable) -> None:
        self._requests = requests
        self._logs: dict[LogKey, RangeSet] = {}
        self._runs = 0

    def __len__(self) -> int:
        """Return the number of runs."""
        return self._runs

    def add(self, log: LogKey, start: int, end: int) -> None:
        """Record that the other end holds the metadata from `start` up to, not including, `end`."""
        if self._runs >= KNOWN_RUNS_MAX:
            self._forget(tuple(key for key in self._logs if not self._requests.of_log(key)))
            self._forget(tuple(self._logs))
        known = self._logs.setdefault(log, RangeSet())
        self._runs -= len(known)
        known.add(start, end)
        self._runs += len(known)

    def has(self, log: LogKey, seq_num: int) -> bool:
        """Whether the other end is known to hold the metadata of an entry."""
        known = self._logs.get(log)
        return known is not None and seq_num in known

    def _forget(self, logs: tuple[LogKey, ...]) -> None:
        """Remove some of these logs, oldest first, until half of the capacity is free."""
        for log in logs:
            if self._runs <= KNOWN_RUNS_MAX // 2:
                return
            self._runs -= len(self._logs.pop(log))
