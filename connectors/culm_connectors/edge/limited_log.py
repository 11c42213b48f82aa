"""Log lines at a bounded rate, for what a broker that is away or a peer may cause many times a second."""

from __future__ import annotations

import logging
import threading
import time

INTERVAL_S = 1.0


class LimitedLog:
    """Of each message (before its arguments are filled in) one line an interval; the next names how many
    were left out. For any thread; messages are constants of the program, so there are few.
    """

    def __init__(self, logger: logging.Logger, interval_s: float = INTERVAL_S) -> None:
        self._logger = logger
        self._interval_s = interval_s
        self._lock = threading.Lock()
        self._logged_s: dict[str, float] = {}
        self._left_out: dict[str, int] = {}

    def log(self, level: int, message: str, *args: object) -> None:
        """Log it, or count it for the next line."""
        now_s = time.monotonic()
        with self._lock:
            last_s = self._logged_s.get(message)
            if last_s is not None and now_s - last_s < self._interval_s:
                self._left_out[message] = self._left_out.get(message, 0) + 1
                return
            self._logged_s[message] = now_s
            left_out = self._left_out.pop(message, 0)
        if left_out:
            self._logger.log(level, f"{message} (and %d more like this)", *args, left_out)
        else:
            self._logger.log(level, message, *args)

    def warning(self, message: str, *args: object) -> None:
        """Log a warning, or count it."""
        self.log(logging.WARNING, message, *args)
