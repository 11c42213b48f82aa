"""The second implementation of Bamboo Point-2-Point (examples/bamboo-go) and `culm bamboo`, as processes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from culm_infra.errors import NotReached
from tests.support.process.waiting import while_working

EXAMPLE = Path(__file__).parents[2] / "examples" / "bamboo-go"
CULM = (sys.executable, "-m", "culm_infra", "bamboo")
_LINE_BYTES = 1 << 20


def build(folder: Path) -> Path:
    """The example as a program; it needs Go, and the modules that its go.mod pins."""
    if shutil.which("go") is None:
        pytest.skip("go is not installed: Bamboo Point-2-Point was tried against no other implementation")
    program = folder / "bamboo-go"
    command = ["go", "build", "-o", str(program), "."]
    done = subprocess.run(command, cwd=EXAMPLE, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    return program


class Running:
    """A process that prints lines of JSON; `lines` are those that came."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.lines: list[dict[str, Any]] = []
        self.process = process
        self._printed = asyncio.Condition()
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            async with self._printed:
                self.lines.append(json.loads(line))
                self._printed.notify_all()

    def said(self, event: str, **fields: Any) -> list[dict[str, Any]]:
        """The lines about an event with these fields."""
        wanted = {"event": event, **fields}.items()
        return [
            line
            for line in self.lines
            if wanted <= {k: v for k, v in line.items() if k in dict(wanted)}.items()
        ]

    async def until_said(self, event: str, count: int = 1, **fields: Any) -> dict[str, Any]:
        """Wait for so many lines about an event; returns the last of them."""
        try:
            async with while_working(), self._printed:
                await self._printed.wait_for(lambda: len(self.said(event, **fields)) >= count)
        except NotReached:
            heard = len(self.said(event, **fields))
            raise AssertionError(
                f"{heard} of {count} lines are {event} {fields}: {self.lines[-5:]}"
            ) from None
        return self.said(event, **fields)[count - 1]

    def numbers(self, event: str) -> list[int]:
        """The sequence numbers of an event, in the order in which it came."""
        return [line["seq_num"] for line in self.said(event)]

    async def type(self, text: str) -> None:
        """A line of its standard input."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{text}\n".encode())
        await self.process.stdin.drain()

    async def ended(self) -> int:
        """Its exit status, once it has ended by itself."""
        async with while_working():
            await self._reading
            return await self.process.wait()

    async def stop(self) -> None:
        """End it, whatever it does."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()
        await self._reading


@contextlib.asynccontextmanager
async def running(*command: str | Path) -> AsyncIterator[Running]:
    """A process; it is ended with the context."""
    process = await asyncio.create_subprocess_exec(
        *map(str, command),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=None,
        limit=_LINE_BYTES,
    )
    program = Running(process)
    try:
        yield program
    finally:
        await program.stop()


async def culm(*arguments: str | Path, status: int = 0) -> list[dict[str, Any]]:
    """What a command of `culm bamboo` prints, that ends with this status."""
    async with running(*CULM, *arguments, "--json") as program:
        assert await program.ended() == status, program.lines
        return program.lines


async def held(folder: Path, name: str = "") -> tuple[list[int], list[int]]:
    """The entries and the payloads of a log (or of the only one) of a folder of Culm's."""
    logs = await culm("status", "--dir", folder)
    log = next((log for log in logs if name in log["log"]), None)
    if log is None:
        return [], []
    entries, payloads = (
        [seq_num for first, last in log[kind] for seq_num in range(first, last + 1)]
        for kind in ("entries", "payloads")
    )
    return entries, payloads


class Between:
    """A TCP connection through this process, that counts, breaks off, or changes what the listener says."""

    def __init__(self, port: int) -> None:
        self.passed = 0
        self.cut_after: int | None = None
        self.spoil: tuple[bytes, bytes] | None = None
        self._port = port

    async def _caller(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._carry(reader, up_writer, listener=False))
                both.create_task(self._carry(up_reader, writer, listener=True))
        except* OSError:
            pass
        finally:
            writer.close()
            up_writer.close()

    async def _carry(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, listener: bool
    ) -> None:
        while data := await reader.read(1 << 16):
            if listener:
                self.passed += len(data)
                if self.spoil is not None:
                    data = data.replace(*self.spoil)
                if self.cut_after is not None and self.passed > self.cut_after:
                    break
            writer.write(data)
            await writer.drain()
        writer.close()
        raise ConnectionError  # the other direction ends with it

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[int]:
        """The port on which it listens."""
        server = await asyncio.start_server(self._caller, "127.0.0.1", 0)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()


@contextlib.asynccontextmanager
async def go_serving(
    program: Path, *arguments: str | Path, scheme: str = ""
) -> AsyncIterator[tuple[Running, int, str]]:
    """Go listens with a log of its own, over TCP or `quic://`; its port and the log's name."""
    async with running(program, "serve", f"{scheme}127.0.0.1:0", *arguments) as go:
        listening = await go.until_said("listening")
        logs = go.said("log")
        yield go, int(listening["address"].rpartition(":")[2]), logs[0]["log"] if logs else ""


@contextlib.asynccontextmanager
async def culm_serving(
    folder: Path, *arguments: str, scheme: str = "tcp://"
) -> AsyncIterator[tuple[Running, int]]:
    """Culm listens; its port."""
    async with running(
        *CULM, "serve", f"{scheme}127.0.0.1:0", "--dir", folder, "--json", *arguments
    ) as server:
        listening = await server.until_said("listening")
        yield server, int(listening["url"].rpartition(":")[2])
