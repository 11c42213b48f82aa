"""Log lines on standard error, for people or one JSON object a line for programs."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Literal

_LENGTH = 2_000


class _JsonFormatter(logging.Formatter):
    """`{"time", "level", "logger", "message"}`, and `error` with the traceback where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        row = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage()[:_LENGTH],
        }
        if record.exc_info:
            row["error"] = self.formatException(record.exc_info)
        return json.dumps(row, ensure_ascii=False)


class _TextFormatter(logging.Formatter):
    """One line a record; characters that could steer a terminal are replaced."""

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        return "".join(one if one.isprintable() or one in "\n\t" else "�" for one in text)


def configure(log_format: Literal["text", "json"], level: int = logging.INFO) -> None:
    """Send this process's log lines to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        _JsonFormatter()
        if log_format == "json"
        else _TextFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    )
    logging.basicConfig(level=level, handlers=[handler], force=True)
    # The QUIC library tells of every packet that it could not use.
    logging.getLogger("quic").setLevel(logging.WARNING)
