"""Processes that a test starts, each the leader of a group, and that do not outlive it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator


@contextlib.contextmanager
def killed_at_the_end() -> Iterator[list[subprocess.Popen[bytes]]]:
    """A list: what is put into it is killed with its group, unless it has ended."""
    started: list[subprocess.Popen[bytes]] = []
    try:
        yield started
    finally:
        for process in started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(30)
