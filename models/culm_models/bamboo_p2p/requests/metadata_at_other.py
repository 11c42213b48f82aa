"""Which entries' metadata the other end is known to hold, from this connection (R54).

Known it must be for payloads alone to be sent. An end may name ever more logs and numbers, in one request
behind the other; so where there are too many runs, logs without a request are forgotten first. What is
forgotten is sent when it is claimed again.
"""

from __future__ import annotations

from typing import Final

from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo.range_set import RangeSet
from culm_models.bamboo_p2p.requests.request_table import RequestTable

KNOWN_RUNS_MAX: Final = 16_384


class MetadataAtOther:
    """Runs of entries by log; some 400 bytes each at most."""

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
