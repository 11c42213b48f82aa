"""A program as a separate process that prints one JSON object per line."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, Final

from culm_infra.demo.kit.processes import DemoError

_STOP_TIMEOUT_S: Final = 10.0
CULM: Final = ("-m", "culm_infra")
Filter = Callable[[dict[str, Any]], bool]
"""Condition on the object of a line."""
Line = tuple[float, dict[str, Any]]
"""Time at which a line was read, on the monotonic clock, and its object."""


class JsonProcess:
    """One process, made by `json_process`. `lines` are the lines that match its filter.

    `printed`: number of all lines.
    """

    def __init__(self, name: str, process: Process, output: Path, keeps: Filter) -> None:
        self.name = name
        self.lines: list[Line] = []
        self.printed = 0
        self._process = process
        self._output = output
        self._keeps = keeps
        self._changed = asyncio.Event()

    async def read(self) -> None:
        """Read the output of the process until it ends."""
        assert self._process.stdout is not None, "it was made with a pipe"
        async for line in self._process.stdout:
            at_s = time.monotonic()
            self.printed += 1
            event = json.loads(line)
            if self._keeps(event):
                self.lines.append((at_s, event))
                self._changed.set()
        self._changed.set()

    async def line(self, holds: Filter, what: str) -> Line:
        """Return the first matching line as soon as it was read. Raises `DemoError` if the process ends
        before.
        """
        looked = 0
        while True:
            self._changed.clear()
            for entry in self.lines[looked:]:
                looked += 1
                if holds(entry[1]):
                    return entry
            if self._process.returncode is not None:
                raise DemoError(
                    f"{self.name} ended with status {self._process.returncode} before {what}",
                    hint=f"see {self._output}",
                )
            await self._changed.wait()

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the process if it still runs."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def kill(self) -> None:
        """Send SIGKILL and wait for the end."""
        self.send_signal(signal.SIGKILL)
        await self._process.wait()

    async def stop(self) -> None:
        """Send SIGTERM, and SIGKILL if the process does not end in time."""
        if self._process.returncode is not None:
            return
        self.send_signal(signal.SIGCONT)
        self.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(self._process.wait(), _STOP_TIMEOUT_S)
        except TimeoutError:
            await self.kill()


@contextlib.asynccontextmanager
async def json_process(
    name: str,
    arguments: Sequence[str],
    output: Path,
    keeps: Filter = lambda _: True,
) -> AsyncIterator[JsonProcess]:
    """Run a program of this Python and stop it at the end. Its standard error goes to `output`."""
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.open("ab") as errors:
        process = await asyncio.create_subprocess_exec(
            sys.executable, *arguments, stdin=asyncio.subprocess.DEVNULL, stdout=PIPE, stderr=errors
        )
    child = JsonProcess(name, process, output, keeps)
    reading = asyncio.create_task(child.read())
    try:
        yield child
    finally:
        await child.stop()
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
