"""Processes identified by id and start time, since an id alone may belong to another process by now."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_POLL_S = 0.02
_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process: its id, and its start time as the operating system reports it."""

    pid: int
    started: str

    def is_running(self) -> bool:
        """Whether this process still runs (a process that has ended but was not waited for does not)."""
        _reap(self.pid)
        return _started(self.pid) == self.started

    def send(self, signal_number: int) -> bool:
        """Send a signal to this process. Returns False if it has ended."""
        if not self.is_running():
            return False
        try:
            os.kill(self.pid, signal_number)
        except ProcessLookupError:
            return False
        return True

    def wait(self, *, timeout_s: float) -> bool:
        """Wait for the end of the process. Returns False if it still runs after ``timeout_s`` seconds."""
        deadline = time.monotonic() + timeout_s
        while self.is_running():
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_S)
        return True

    def stop(self, *, timeout_s: float) -> bool:
        """Send SIGTERM, and SIGKILL after ``timeout_s`` seconds. Returns True if SIGTERM was enough."""
        self.send(signal.SIGTERM)
        if self.wait(timeout_s=timeout_s):
            return True
        self.kill()
        return False

    def kill(self) -> None:
        """Send SIGKILL, and wait until the process is gone."""
        self.send(signal.SIGKILL)
        self.wait(timeout_s=10.0)

    def resident_bytes(self) -> int | None:
        """Return the resident memory in bytes; None if the operating system does not report it."""
        try:
            pages = int((_PROC / str(self.pid) / "statm").read_text().split()[1])
        except (OSError, IndexError, ValueError):
            return None
        return pages * os.sysconf("SC_PAGE_SIZE")


def identify(pid: int) -> ProcessIdentity | None:
    """Return the identity of a running process; None if no process has this id."""
    started = _started(pid)
    return None if started is None else ProcessIdentity(pid, started)


def spawn_detached(
    arguments: Sequence[str], *, environment: Mapping[str, str], output: Path
) -> ProcessIdentity | None:
    """Start a program in its own session, so that it outlives this process and its terminal.

    Its standard output and error are appended to ``output``. Returns None if it ended at once.
    """
    # os.posix_spawn and not subprocess: a Popen object complains when it is dropped before its process.
    pid = os.posix_spawn(
        arguments[0],
        list(arguments),
        dict(environment),
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(output), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )
    return identify(pid)


def _reap(pid: int) -> None:
    # A process that is not a child is reaped by its own parent.
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _started(pid: int) -> str | None:
    if not _PROC.joinpath("self/stat").exists():
        return _started_by_ps(pid)
    try:
        stat = (_PROC / str(pid) / "stat").read_text()
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The program's name, in brackets, may contain spaces: fields are counted after it (state is the 3rd).
    fields = stat.rpartition(")")[2].split()
    state, threads, start_ticks = fields[0], int(fields[17]), fields[19]
    # If the first thread has ended before the others, files and ports stay open until the last one has.
    ended = state in "ZX" and threads <= 1
    return None if ended else f"{boot}/{start_ticks}"


def _started_by_ps(pid: int) -> str | None:
    answer = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    state, _, started = answer.stdout.strip().partition(" ")
    return None if not started or state.startswith("Z") else started.strip()
