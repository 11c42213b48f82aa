"""A console that stays beside a local stack after a demo, in a process of its own, until the stack stops.

The module is light to import: the demo and `culm stack down` use it without the web server.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from culm_infra.stack import ports
from culm_infra.stack.ports import HOST
from culm_infra.stack.process import ProcessIdentity, spawn_detached

_RECORD: Final = "console.json"
_USUAL_PORT: Final = 8780
_STOP_TIMEOUT_S: Final = 10.0
_POLL_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class ConsoleBeside:
    """A running console: its process, and its address with the token."""

    process: ProcessIdentity
    url: str


def start_beside(
    directory: Path,
    environment: Mapping[str, str],
    targets: Sequence[str],
    log: Path,
    timeout_s: float = 30.0,
) -> ConsoleBeside | None:
    """Start a console and record it in a directory, or return the one that runs there already.

    Returns None if it has not answered after `timeout_s` seconds: its output in `log` then says why.
    """
    if (known := running_beside(directory)) is not None:
        return known
    port = _USUAL_PORT if ports.is_free(_USUAL_PORT) else ports.free_ports(1)[0]
    token = secrets.token_urlsafe(32)
    process = spawn_detached(
        [sys.executable, "-m", "culm_infra", "console"],
        environment={
            **environment,
            "CULM_CONSOLE__LISTEN": f"{HOST}:{port}",
            "CULM_CONSOLE__TARGETS": json.dumps(list(targets)),
            "CULM_CONSOLE__TOKEN": token,
        },
        output=log,
    )
    if process is None:
        return None
    console = ConsoleBeside(process, f"http://{HOST}:{port}/?token={token}")
    _write(directory / _RECORD, console)
    deadline_s = time.monotonic() + timeout_s
    while process.is_running() and time.monotonic() < deadline_s:
        if ports.answers(port):
            return console
        time.sleep(_POLL_S)
    stop_beside(directory)
    return None


def running_beside(directory: Path) -> ConsoleBeside | None:
    """Return the console that was started in a directory and still runs."""
    try:
        record = json.loads((directory / _RECORD).read_text())
        console = ConsoleBeside(
            ProcessIdentity(int(record["pid"]), str(record["started"])), str(record["url"])
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return console if console.process.is_running() else None


def stop_beside(directory: Path) -> bool:
    """Stop the console that was started in a directory. Returns False if none runs."""
    console = running_beside(directory)
    if console is not None:
        console.process.stop(timeout_s=_STOP_TIMEOUT_S)
    (directory / _RECORD).unlink(missing_ok=True)
    return console is not None


def _write(path: Path, console: ConsoleBeside) -> None:
    record = {"pid": console.process.pid, "started": console.process.started, "url": console.url}
    path.unlink(missing_ok=True)
    # The address has the token.
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:  # noqa: PTH123
        json.dump(record, file)
