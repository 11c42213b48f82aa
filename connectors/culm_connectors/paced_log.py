"""Log lines that others can cause, within a rate: what is left out is counted and said in the next one."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from culm_connectors.limits import TokenBucket


@dataclass(slots=True)
class _Kind:
    bucket: TokenBucket
    left_out: int = 0


class PacedLog:
    """Writes at most `per_second` lines of each kind on average, and `burst` of them at once.

    Kinds are the caller's, a fixed few: they are kept for ever, so nothing that a remote chooses may be one.
    """

    def __init__(
        self,
        logger: logging.Logger,
        *,
        per_second: float = 1.0,
        burst: int = 10,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        assert per_second > 0 and burst >= 1, "some lines are written"
        self._logger = logger
        self._per_second = per_second
        self._burst = burst
        self._clock = clock
        self._kinds: dict[str, _Kind] = {}

    def log(self, level: int, kind: str, message: str, *args: object) -> None:
        """Write a line of a kind, or count it among those left out."""
        if not self._logger.isEnabledFor(level):
            return
        known = self._kinds.get(kind)
        if known is None:
            known = self._kinds[kind] = _Kind(TokenBucket(self._per_second, self._burst))
        if not known.bucket.take(1, self._clock()):
            known.left_out += 1
            return
        if known.left_out:
            message += " (%d lines like this one were left out before it)"
            args = (*args, known.left_out)
            known.left_out = 0
        self._logger.log(level, message, *args, stacklevel=2)

    def info(self, kind: str, message: str, *args: object) -> None:
        """Write what operators like to know."""
        self.log(logging.INFO, kind, message, *args)

    def warning(self, kind: str, message: str, *args: object) -> None:
        """Write what operators should know."""
        self.log(logging.WARNING, kind, message, *args)
