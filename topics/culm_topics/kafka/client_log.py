"""What librdkafka logs by itself, as records of `logging` at a bounded rate.

A client that cannot reach its broker logs twenty lines a second of the same kind. Of each kind (librdkafka's
facility: FAIL, ERROR, ...) one line in ten seconds is passed on, with the number of those left out.
"""

import logging
import time
from typing import Final

INTERVAL_SECONDS: Final = 10.0
CLIENT_LOG: Final = logging.getLogger("culm_topics.librdkafka")


class OneOfEachKind(logging.Filter):
    """Passes on the first record of each facility in every interval."""

    def __init__(self, interval_seconds: float = INTERVAL_SECONDS) -> None:
        super().__init__()
        self._interval_seconds = interval_seconds
        self._passed_s: dict[object, float] = {}
        self._left_out: dict[object, int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether this one is passed on; its message then says how many were not."""
        # confluent-kafka logs with the arguments (facility, client's name, text).
        kind = record.args[0] if isinstance(record.args, tuple) and record.args else record.msg
        now_s = time.monotonic()
        last_s = self._passed_s.get(kind)
        if last_s is not None and now_s - last_s < self._interval_seconds:
            self._left_out[kind] = self._left_out.get(kind, 0) + 1
            return False
        self._passed_s[kind] = now_s
        if left_out := self._left_out.pop(kind, 0):
            record.msg = f"{record.msg} ({left_out} more like this since the last one)"
        return True


CLIENT_LOG.addFilter(OneOfEachKind())
