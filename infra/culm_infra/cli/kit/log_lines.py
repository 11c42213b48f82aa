"""Log lines on standard error: text for people, or one JSON object per line for programs."""

from __future__ import annotations

import json
import logging
import sys
import threading
from datetime import UTC, datetime
from types import TracebackType
from typing import Any

from culm_infra.cli.kit.output import use_json_lines

# Attributes of every log record; any other attribute was passed as `extra`.
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def set_up(log_format: str) -> None:
    """Write Culm's own log lines from INFO, those of libraries from WARNING, as `text` or `json`."""
    use_json_lines(are_used=log_format == "json")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if log_format == "json" else TextLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for package in ("culm_models", "culm_topics", "culm_streaming", "culm_connectors", "culm_infra"):
        logging.getLogger(package).setLevel(logging.INFO)
    # Warnings that Python would print to standard error become log lines, too.
    logging.captureWarnings(capture=True)
    if log_format == "json":
        sys.excepthook = _log_uncaught
        threading.excepthook = _log_uncaught_of_thread


def _log_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    logging.getLogger("culm_infra").critical("unexpected error", exc_info=(kind, error, trace))


def _log_uncaught_of_thread(failed: threading.ExceptHookArgs) -> None:
    if failed.exc_value is not None:
        _log_uncaught(failed.exc_type, failed.exc_value, failed.exc_traceback)


class JsonLines(logging.Formatter):
    """Formatter with time, level, logger, message and the record's own fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one JSON object on one line."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info is not None:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=_plain, ensure_ascii=False)


class TextLines(logging.Formatter):
    """Formatter with time, level (unless it is INFO), message, and the record's own fields as
    `name=value`.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line, followed by the traceback if there is one."""
        time = datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S")
        level = "" if record.levelno == logging.INFO else f"{record.levelname.lower()}: "
        fields = "".join(f" {name}={_plain(value)}" for name, value in _fields(record).items())
        line = f"{time} {level}{record.getMessage()}{fields}"
        return line if record.exc_info is None else f"{line}\n{self.formatException(record.exc_info)}"


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}


def _plain(value: object) -> object:
    return (
        value.hex() if isinstance(value, bytes) else value if isinstance(value, int | float) else str(value)
    )
