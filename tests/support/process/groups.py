"""Processes that a test starts, and that do not outlive it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any

_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def give_children_default_signals() -> None:
    """Start children with default dispositions, also if this process was started with signals ignored.

    `nohup make test &` and some CI runners ignore SIGINT or SIGHUP, and a child inherits that: it could not
    be interrupted. This process goes on ignoring them, by a handler, which a child does not inherit.
    """
    for number in _STOPPING:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


@contextlib.contextmanager
def child(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[str]]:
    """Run a command beside the body, its output a pipe of text; kill it at the end unless it has ended."""
    options = {"stdout": subprocess.PIPE, "text": True, **options}
    with subprocess.Popen(command, **options) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


@contextlib.contextmanager
def killed_at_the_end() -> Iterator[list[subprocess.Popen[bytes]]]:
    """A list for leaders of groups: each is killed with its group at the end, unless it has ended."""
    started: list[subprocess.Popen[bytes]] = []
    try:
        yield started
    finally:
        for process in started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(30)
