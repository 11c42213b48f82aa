"""The Go replica of Chotki beside ours: a separately built program that is driven by lines of JSON.

It is not part of this repository. `CULM_CHOTKI_GO` names it; docs/chotki.md describes its commands.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

VARIABLE = "CULM_CHOTKI_GO"
_FINE = "<nil>"
_STOP_TIMEOUT_S = 10.0


def implementation() -> Path | None:
    """Return the path of the program; None if it is not configured."""
    named = os.environ.get(VARIABLE)
    return Path(named).resolve(strict=True) if named else None


class GoReplica:
    """One Go replica with its own folder and source; after a kill and a restart it resumes from the folder.

    `read_window_ms`: how often it processes received bytes, unless 10 kB are there earlier.
    """

    def __init__(
        self,
        program: Path,
        folder: Path,
        src: int,
        *,
        read_window_ms: int = 30,
        ping_period_ms: int = 30_000,
        ping_wait_ms: int = 10_000,
        fsync: bool = False,
    ) -> None:
        self.src = src
        self._program = program
        self._folder = folder
        self._options = {
            "dir": str(folder / "store"),
            "name": f"go {src:x}",
            "src": src,
            "pingms": ping_period_ms,
            "waitms": ping_wait_ms,
            "readms": read_window_ms,
            "queuems": 100,
            "fsync": fsync,
        }
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        """Process id of the replica."""
        return self._running.pid

    @property
    def log(self) -> Path:
        """Standard error of all its runs."""
        return self._folder / "log"

    def start(self) -> None:
        """Start the program, and wait until its store is open."""
        assert self._process is None, "it runs already"
        self._folder.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [str(self._program), json.dumps(self._options)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        answer = self._read()
        if answer.get("ok") != "ready":
            raise RuntimeError(f"the Go replica does not start: {answer}")

    def kill(self) -> None:
        """Send SIGKILL and wait for the end."""
        process, self._process = self._running, None
        process.kill()
        process.wait()
        _close(process)

    def stop(self) -> None:
        """End the program in good order if it runs."""
        if self._process is None:
            return
        process, self._process = self._process, None
        _close(process)
        try:
            process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Send one command and return the answer. Raises RuntimeError for an error."""
        stdin = self._running.stdin
        assert stdin is not None, "a pipe"
        stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        stdin.flush()
        answer = self._read()
        if answer.get("error", _FINE) != _FINE:
            raise RuntimeError(f"the Go replica, asked to {do}: {answer['error']}")
        return answer

    def commit(self, letter: str, ref: str, body: bytes, count: int = 1) -> str:
        """Commit so many changes with one body. Returns the id of the last one as text."""
        answer = self.ask("commit", letter=letter, ref=ref, body=body.hex(), count=count)
        return str(answer["id"])

    def vector(self) -> str:
        """Return the global vector as text."""
        return str(self.ask("vector")["vector"])

    def store(self) -> dict[bytes, bytes]:
        """Return fields and vectors by store key."""
        return {bytes.fromhex(key): bytes.fromhex(value) for key, value in self.ask("dump").items()}

    @property
    def _running(self) -> subprocess.Popen[str]:
        assert self._process is not None, "it runs"
        return self._process

    def _read(self) -> dict[str, Any]:
        stdout: IO[str] | None = self._running.stdout
        assert stdout is not None, "a pipe"
        line = stdout.readline()
        if not line:
            raise RuntimeError(f"the Go replica ended with status {self._running.wait()}: see {self.log}")
        answer: dict[str, Any] = json.loads(line)
        return answer


def _close(process: subprocess.Popen[str]) -> None:
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None, "a pipe"
        with contextlib.suppress(OSError):
            pipe.close()


@contextlib.contextmanager
def running(replica: GoReplica) -> Iterator[GoReplica]:
    """Start the replica, and stop it at the end."""
    replica.start()
    try:
        yield replica
    finally:
        replica.stop()
