"""`culm bamboo` as processes: a folder that is served, and commands that talk to it."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CULM = (sys.executable, "-c", "from culm_infra.cli import main; main()", "bamboo")


@dataclass
class Served:
    """A process that serves a folder."""

    url: str
    process: asyncio.subprocess.Process

    async def next_event(self, kind: str) -> dict[str, Any]:
        """What it tells next of this kind."""
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            told: dict[str, Any] = json.loads(line)
            if told["event"] == kind:
                return told
        raise AssertionError(f"it ended without telling of {kind}")


@asynccontextmanager
async def serving(folder: Path, *options: str, url: str = "tcp://127.0.0.1:0") -> AsyncIterator[Served]:
    """Serve a folder while the context lasts."""
    async with running("serve", url, "--dir", str(folder), *options) as served:
        served.url = (await served.next_event("listening"))["url"]
        yield served


@asynccontextmanager
async def running(*arguments: str) -> AsyncIterator[Served]:
    """Run a command that stays, while the context lasts."""
    process = await asyncio.create_subprocess_exec(
        *CULM, *arguments, "--json", stdout=subprocess.PIPE, limit=2**20
    )
    try:
        yield Served("", process)
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGCONT)
            process.send_signal(signal.SIGINT)
            assert process.stdout is not None
            try:
                async with asyncio.timeout(10):
                    await process.stdout.read()
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()


async def command(*arguments: str, status: int = 0) -> list[dict[str, Any]]:
    """Run a command with `--json`: what it says."""
    process = await asyncio.create_subprocess_exec(
        *CULM, *arguments, "--json", stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    said, complaint = await process.communicate()
    assert process.returncode == status, complaint.decode()
    return [json.loads(line) for line in said.splitlines()]
