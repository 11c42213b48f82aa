"""Which requests there are, by their numbers, as either channel sees them (R10, R41).

A number names its latest use on the control channel. On the data channel it names the oldest use whose last
data message has not come: former uses of a number wait here for theirs, and so do lost proposals that the
other end had cancelled already.
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
    """A proposal of the other end that lost to one of ours, and of which more may be on its way (R41)."""

    winner_order: int
    cancel_ignored: bool = False


class RequestTable:
    """The requests of one connection."""

    __slots__ = ("_by_log", "_ends_owed", "active", "former", "tombstones")

    def __init__(self) -> None:
        self.active: dict[int, Request] = {}
        self.former: dict[int, deque[Request | None]] = {}
        """By number, oldest first; None for a lost proposal whose last data message alone is expected."""
        self.tombstones: dict[int, Tombstone] = {}
        self._by_log: dict[LogKey, list[Request]] = {}
        self._ends_owed = 0

    def add(self, request: Request) -> None:
        """Put in a new request; a former use of its number waits for its last data message from here on."""
        former = self.active.get(request.id)
        if former is not None:
            self.former.setdefault(request.id, deque()).append(former)
        self.active[request.id] = request
        self._by_log.setdefault(request.log, []).append(request)

    def remove(self, request: Request) -> None:
        """Take out a request that is freed, or lost."""
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
        """The use of a number that data means: the oldest whose last data message has not come."""
        for former in self.former.get(request_id, ()):
            if former is not None:
                return former
        return self.active.get(request_id)

    def of_log(self, log: LogKey) -> tuple[Request, ...]:
        """The requests for a log."""
        return tuple(self._by_log.get(log, ()))

    def __iter__(self) -> Iterator[Request]:
        """All requests, former uses of numbers too, in no special order."""
        for uses in self.former.values():
            yield from (former for former in uses if former is not None)
        yield from self.active.values()

    def bury(self, request_id: int, winner: Request) -> None:
        """A proposal of the other end lost to `winner`, also against a former use of its number."""
        former = self.active.pop(request_id, None)
        if former is not None:
            self.former.setdefault(request_id, deque()).append(former)
        self.tombstones[request_id] = Tombstone(winner.order)

    def ignore_cancel(self, request_id: int, tombstone: Tombstone) -> None:
        """The other end cancelled a lost proposal: its last data message is still coming."""
        tombstone.cancel_ignored = True
        self._ends_owed += 1
        self.former.setdefault(request_id, deque()).append(None)

    @property
    def lost(self) -> int:
        """How many lost proposals of the other end more may come of, and last data messages that it owes."""
        return len(self.tombstones) + self._ends_owed

    def end_tombstones(self, order: int) -> None:
        """The other end answered our proposal of this order, so it has read all winners up to it."""
        for request_id in [key for key, stone in self.tombstones.items() if stone.winner_order <= order]:
            del self.tombstones[request_id]

    def ignored_end_came(self, request_id: int) -> bool:
        """Whether the oldest use of the number is a lost proposal; it is forgotten then."""
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
    """Runs of entries by log; some 400 bytes each at most.

    Known it must be for payloads alone to be sent. An end may name ever more logs and numbers, in one request
    behind the other; so where there are too many runs, logs without a request are forgotten first. What is
    forgotten is sent when it is claimed again.
    """

    __slots__ = ("_logs", "_requests", "_runs")

    def __init__(self, requests: RequestTable) -> None:
        self._requests = requests
        self._logs: dict[LogKey, RangeSet] = {}
        self._runs = 0

    def __len__(self) -> int:
        """How many runs are known."""
        return self._runs

    def add(self, log: LogKey, start: int, end: int) -> None:
        """The metadata from `start` up to, without, `end` is there."""
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
        """Forget some of these logs, the longest known first, until there is room again."""
        for log in logs:
            if self._runs <= KNOWN_RUNS_MAX // 2:
                return
            self._runs -= len(self._logs.pop(log))
