"""The streaming jobs and the connectors as processes of their own, each with its output in a file."""

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
"""What a connector prints once peers may come."""

Show = Callable[[str], None]
"""Shows a line of the story as it goes."""

_STOP_TIMEOUT_S = 30.0
_SHOWN_LINES = 6


class DemoError(InfraError):
    """Something that the demo started did not do its part."""

    code: ClassVar[str] = "demo"


@dataclass(slots=True)
class CulmProcess:
    """One running ``culm`` command; ``log`` holds what it printed."""

    name: str
    arguments: tuple[str, ...]
    environment: dict[str, str]
    log: Path
    _process: subprocess.Popen[bytes] | None = None
    _log_start: int = 0

    def start(self, *more: str) -> None:
        """Start it, with ``more`` arguments; its output is appended to ``log``."""
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
        """Whether it was started, and neither stopped nor killed since."""
        return self._process is not None

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process is not None, f"{self.name} does not run"
        return self._process.pid

    def check(self) -> None:
        """Raises DemoError when it has ended by itself."""
        if self._process is not None and (status := self._process.poll()) is not None:
            raise DemoError(
                f"{self.name} ended with status {status}: {self.last_words()}", hint=f"see {self.log}"
            )

    def kill(self) -> None:
        """SIGKILL: no chance to say goodbye."""
        assert self._process is not None, f"{self.name} does not run"
        self._process.kill()
        self._process.wait()
        self._process = None

    def kill_tree(self) -> None:
        """SIGKILL to it and to all that it started: of a job, Python, the Java machine and the workers."""
        below = descendants(self.pid)
        self.kill()
        for pid in below:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def stop(self) -> None:
        """SIGTERM, and SIGKILL when that takes too long."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def last_words(self) -> str:
        """The last lines it printed."""
        with contextlib.suppress(OSError):
            return " | ".join(self.log.read_text(errors="replace").splitlines()[-_SHOWN_LINES:])
        return ""

    def printed_bytes(self) -> int:
        """How much it has printed, in all its lives."""
        return self.log.stat().st_size if self.log.exists() else 0

    def printed(self) -> str:
        """What it printed since its last start."""
        if not self.log.exists():
            return ""
        with self.log.open("rb") as output:
            output.seek(self._log_start)
            return output.read().decode(errors="replace")

    def wait_for_log(self, marker: str, limit_s: float) -> None:
        """Wait until a line it printed since its last start holds ``marker``.

        Raises DemoError when it ends, and NotReached when it prints nothing more for so long.
        """
        patience = Patience(limit_s, self.printed)
        while marker not in self.printed():
            self.check()
            patience.check(f"{self.name} to be ready, see {self.log}")
            time.sleep(0.05)


def environment(kafka: KafkaSettings) -> dict[str, str]:
    """The environment in which a ``culm`` command uses this Kafka, for some minutes."""
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
    """Stops every process at the end, whatever happened."""
    try:
        yield
    finally:
        for process in processes:
            process.stop()


def descendants(pid: int) -> list[int]:
    """The processes below one, each behind its parent."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name in parentheses may hold anything; the parent is the second field behind it.
            fields = stat.read_text().rpartition(")")[2].split()
            children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found: list[int] = []
    waiting = [pid]
    while waiting:
        for child in children.get(waiting.pop(), []):
            found.append(child)
            waiting.append(child)
    return found
