"""The streaming jobs and the connectors as separate processes, each with its output in a file."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from culm_infra.errors import InfraError
from culm_infra.patience import Patience
from culm_topics.kafka.clients import KafkaSettings

SERVING = "serving peers"
"""Printed by a connector once peers may connect."""

Show = Callable[[str], None]
"""Shows a line of the running story."""

_STOP_TIMEOUT_S = 30.0
_SHOWN_LINES = 6


class DemoError(InfraError):
    """A process of the demo failed."""

    code: ClassVar[str] = "demo"


@dataclass(slots=True)
class CulmProcess:
    """One ``culm`` command as a process; ``log`` contains its output."""

    name: str
    arguments: tuple[str, ...]
    environment: dict[str, str]
    log: Path
    _process: subprocess.Popen[bytes] | None = None
    _log_start: int = 0

    def start(self, *more: str) -> None:
        """Start the process, with ``more`` arguments; its output is appended to ``log``."""
        assert self._process is None, f"{self.name} runs already"
        with self.log.open("ab") as output:
            self._log_start = output.tell()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "culm_infra", *self.arguments, *more],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    @property
    def is_running(self) -> bool:
        """Whether the process was started and has been neither stopped nor killed since."""
        return self._process is not None

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._process is not None, f"{self.name} does not run"
        return self._process.pid

    def check(self) -> None:
        """Raise `DemoError` if the process has ended by itself."""
        if self._process is not None and (status := self._process.poll()) is not None:
            raise DemoError(
                f"{self.name} ended with status {status}: {self.last_words()}", hint=f"see {self.log}"
            )

    def kill(self) -> None:
        """Send SIGKILL and wait for the end."""
        assert self._process is not None, f"{self.name} does not run"
        self._process.kill()
        self._process.wait()
        self._process = None

    def kill_tree(self) -> None:
        """Send SIGKILL to the process and its descendants: for a job, to Python, the JVM and the workers."""
        below = descendants(self.pid)
        self.kill()
        for pid in below:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def ended(self, limit_s: float) -> int | None:
        """Wait for the process to end by itself; returns its exit status, or None if it runs for longer."""
        assert self._process is not None, f"{self.name} does not run"
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = self._process.wait(limit_s)
            self._process = None
            return status
        return None

    def terminate(self) -> None:
        """Send SIGTERM and return at once."""
        if self._process is not None:
            self._process.terminate()

    def stop(self) -> None:
        """Send SIGTERM, and SIGKILL if the process does not end in time."""
        self.terminate()
        self.wait_terminated()

    def wait_terminated(self) -> None:
        """Wait for the end of the process after `terminate`; send SIGKILL if it does not end in time."""
        if self._process is None:
            return
        try:
            self._process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def last_words(self) -> str:
        """Return the last lines of the output."""
        with contextlib.suppress(OSError):
            return " | ".join(self.log.read_text(errors="replace").splitlines()[-_SHOWN_LINES:])
        return ""

    def printed_bytes(self) -> int:
        """Return the size of the output over all starts, in bytes."""
        return self.log.stat().st_size if self.log.exists() else 0

    def printed(self) -> str:
        """Return the output since the last start."""
        if not self.log.exists():
            return ""
        with self.log.open("rb") as output:
            output.seek(self._log_start)
            return output.read().decode(errors="replace")

    def wait_for_log(self, marker: str, limit_s: float) -> None:
        """Wait until the output since the last start contains ``marker``.

        Raises `DemoError` if the process ends, and `NotReached` if it prints nothing more for ``limit_s``
        seconds.
        """
        patience = Patience(limit_s, self.printed)
        while marker not in self.printed():
            self.check()
            patience.check(f"{self.name} to be ready, see {self.log}")
            time.sleep(0.05)


def environment(kafka: KafkaSettings) -> dict[str, str]:
    """Return the environment for a ``culm`` command that uses this Kafka for some minutes."""
    return {
        **os.environ,
        "CULM_BOOTSTRAP": kafka.bootstrap,
        "CULM_PREFIX": kafka.prefix,
        "CULM_KAFKA": json.dumps(kafka.options),
        "CULM_LOG_FORMAT": "text",
        "CULM_JOB__QUICK_START": "1",
        "NO_COLOR": "1",
    }


@contextlib.contextmanager
def running(processes: Sequence[CulmProcess]) -> Iterator[None]:
    """Stop every process at the end, also after errors."""
    try:
        yield
    finally:
        stop_all(processes)


def stop_all(processes: Sequence[CulmProcess]) -> None:
    """Stop processes at the same time: each takes seconds."""
    for process in processes:
        process.terminate()
    # One signal each: a second one ends jobs before they have stopped Spark.
    for process in processes:
        process.wait_terminated()


def descendants(pid: int) -> list[int]:
    """Return the descendants of a process, each after its parent."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name in parentheses may contain anything; the parent is the second field after it.
            fields = stat.read_text().rpartition(")")[2].split()
            children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    pids: list[int] = []
    waiting = [pid]
    while waiting:
        for child in children.get(waiting.pop(), []):
            pids.append(child)
            waiting.append(child)
    return pids
