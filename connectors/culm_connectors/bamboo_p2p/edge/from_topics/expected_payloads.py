"""Payloads that are on their way: topics bring them apart from their entries, and a moment later.

While one is expected, peers that ask for it are not told that it cannot be had, which would be final for
them. A log whose payloads do not come, because nobody has brought them, costs that wait once: none is
expected of it again before one comes.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from culm_models.bamboo.log_store import LogKey

WAIT_S: Final = 2.0
_EXPECTED_MAX: Final = 10_000
_LOGS_MAX: Final = 10_000


class ExpectedPayloads:
    """What is expected, by log and sequence number; for the thread that works on the logs."""

    def __init__(self, wait_s: float = WAIT_S, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._wait_s = wait_s
        self._clock_s = clock_s
        self._until_s: OrderedDict[tuple[LogKey, int], float] = OrderedDict()
        self._in_vain: OrderedDict[LogKey, None] = OrderedDict()
        """Logs of which one was expected that did not come."""

    def __contains__(self, payload: tuple[LogKey, int]) -> bool:
        return payload in self._until_s

    def expect(self, log: LogKey, seq_num: int) -> None:
        """An entry came without its payload."""
        if log not in self._in_vain and len(self._until_s) < _EXPECTED_MAX:
            self._until_s.setdefault((log, seq_num), self._clock_s() + self._wait_s)

    def came(self, log: LogKey, seq_num: int) -> None:
        """A payload is held now."""
        self._until_s.pop((log, seq_num), None)
        self._in_vain.pop(log, None)

    def take_overdue(self) -> list[tuple[LogKey, int]]:
        """What is not expected any longer: peers may be told that it is not here."""
        now_s = self._clock_s()
        overdue: list[tuple[LogKey, int]] = []
        while self._until_s:
            payload, until_s = next(iter(self._until_s.items()))
            if until_s > now_s:
                break
            del self._until_s[payload]
            overdue.append(payload)
            self._in_vain[payload[0]] = None
            if len(self._in_vain) > _LOGS_MAX:
                self._in_vain.popitem(last=False)
        return overdue
