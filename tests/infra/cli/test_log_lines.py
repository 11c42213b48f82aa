"""With JSON chosen, every line on standard error is one object, whoever writes it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

_PROGRAM = """
import logging, sys, threading, warnings
from culm_infra.cli.log_lines import set_up
set_up("json")
logging.getLogger("culm_connectors").info("ours", extra={"peer": b"\\x01"})
logging.getLogger("quic").warning("a library's")
warnings.warn("Python's own")
try:
    1 / 0
except ZeroDivisionError:
    logging.getLogger("culm_topics").exception("with a traceback")
thread = threading.Thread(target=lambda: 1 / 0)
thread.start()
thread.join()
raise RuntimeError("nobody caught this")
"""


def test_lines_of_libraries_warnings_and_tracebacks_are_objects() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=60, check=False
    )
    lines: list[dict[str, Any]] = [json.loads(line) for line in ended.stderr.splitlines()]
    assert [line["logger"] for line in lines] == [
        "culm_connectors",
        "quic",
        "py.warnings",
        "culm_topics",
        "culm_infra",
        "culm_infra",
    ]
    assert lines[0]["peer"] == "01"
    for line in lines[3:]:
        assert line["exception"].startswith("Traceback")
    assert "nobody caught this" in lines[-1]["exception"]
