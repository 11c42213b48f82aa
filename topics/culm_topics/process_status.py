"""Fields that the status documents of all processes share, and the latest warnings of a process."""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any, Final

from culm_topics.kafka.clients import KafkaSettings
from culm_topics.status_socket import FORMAT

MAX_WARNINGS: Final = 20
_MAX_CHARACTERS: Final = 500


class RecentWarnings(logging.Handler):
    """Keeps the latest log lines that are warnings or errors."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._lines: deque[dict[str, Any]] = deque(maxlen=MAX_WARNINGS)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a log line."""
        try:
            message = record.getMessage()
        except (TypeError, ValueError):  # arguments that do not match the text
            message = str(record.msg)
        if record.exc_info is not None and record.exc_info[1] is not None:
            message = f"{message}: {record.exc_info[1]!r}"
        self._lines.append(
            {
                "time_ms": int(record.created * 1000),
                "level": record.levelname.lower(),
                "message": message[:_MAX_CHARACTERS],
            }
        )

    def lines(self) -> Sequence[dict[str, Any]]:
        """Return the lines, oldest first; from any thread."""
        self.acquire()
        try:
            return tuple(self._lines)
        finally:
            self.release()


class ProcessStatus:
    """Fields of one process that do not depend on what it runs: `kind` is `connector` or `job`.

    `kafka` has the address and the prefix. `collect_warnings` must be open for the warnings.
    """

    def __init__(self, kind: str, kafka: KafkaSettings) -> None:
        self._kind = kind
        self._kafka = kafka
        self._started_ms = int(time.time() * 1000)
        self._warnings = RecentWarnings()

    @contextmanager
    def collect_warnings(self) -> Iterator[None]:
        """Collect the warnings of the whole process while the context is open."""
        root = logging.getLogger()
        root.addHandler(self._warnings)
        try:
            yield
        finally:
            root.removeHandler(self._warnings)

    def document(self, state: str, reasons: Sequence[str], **fields: Any) -> dict[str, Any]:
        """Return a document; the process is ready if there is no reason against it."""
        return {
            "format": FORMAT,
            "kind": self._kind,
            "pid": os.getpid(),
            "version": version("culm"),
            "started_ms": self._started_ms,
            "time_ms": int(time.time() * 1000),
            "state": state,
            "ready": not reasons,
            "reasons": list(reasons),
            "kafka": {"bootstrap": self._kafka.bootstrap, "prefix": self._kafka.prefix},
            **fields,
            "warnings": list(self._warnings.lines()),
        }
