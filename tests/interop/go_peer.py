"""The example peer in Go (examples/go-peer) as a process: what it prints, and what it is told."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from culm_infra.errors import NotReached
from tests.support.process.waiting import while_working

EXAMPLE = Path(__file__).parents[2] / "examples" / "go-peer"


def build(folder: Path) -> Path:
    """The example as a program; modules and compiled packages come from Go's own caches."""
    if shutil.which("go") is None:
        pytest.skip("go is not installed: nothing here was tried against QUIC of another language")
    program = folder / "go-peer"
    done = subprocess.run(
        ["go", "build", "-o", str(program), "."],
        cwd=EXAMPLE,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return program


class GoPeer:
    """A running example; `lines` are those that it has printed."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.lines: list[str] = []
        self._process = process
        self._printed = asyncio.Condition()
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            async with self._printed:
                self.lines.append(line.decode().rstrip("\n"))
                self._printed.notify_all()

    def said(self, word: str) -> list[list[str]]:
        """What follows a word, of each line that begins with it."""
        return [rest for first, *rest in map(str.split, self.lines) if first == word]

    @property
    def entries(self) -> dict[tuple[bytes, int, int], bytes]:
        """The hash of each entry that came, by public key, log id and sequence number."""
        return {
            (bytes.fromhex(key), int(log_id), int(seq_num)): bytes.fromhex(entry_hash)
            for key, log_id, seq_num, entry_hash, *_ in self.said("entry")
        }

    async def until_said(self, word: str, count: int = 1) -> list[str]:
        """Wait until so many lines begin with a word; returns what follows it in the last of them."""
        try:
            async with while_working(), self._printed:
                await self._printed.wait_for(lambda: len(self.said(word)) >= count)
        except NotReached:
            printed = "\n".join(self.lines[-5:])
            raise AssertionError(
                f"{len(self.said(word))} lines of {count} begin with {word}\n{printed}"
            ) from None
        return self.said(word)[count - 1]

    async def publish(self, field: str) -> tuple[int, bytes]:
        """Have it publish a document, "name=value"; returns the log id and the entry's hash."""
        assert self._process.stdin is not None
        count = len(self.said("published"))
        self._process.stdin.write(f"{field}\n".encode())
        log_id, entry_hash = await self.until_said("published", count + 1)
        return int(log_id), bytes.fromhex(entry_hash)

    async def leave(self) -> None:
        """Have it leave in good order."""
        self._process.terminate()
        assert await self.ended() == (0, "")

    async def ended(self) -> tuple[int, str]:
        """Its exit status and what it said on standard error."""
        assert self._process.stderr is not None
        async with while_working():
            errors = await self._process.stderr.read()
            return await self._process.wait(), errors.decode()

    async def stop(self) -> None:
        """End it, whatever it does."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        await self._reading


@contextlib.asynccontextmanager
async def running(program: Path, key: bytes, schema_id: str, *options: str) -> AsyncIterator[GoPeer]:
    """The example with this private key, about this schema; it is ended with the context."""
    key_file = program.with_name(f"{key.hex()[:16]}.key")
    key_file.write_text(key.hex())
    process = await asyncio.create_subprocess_exec(
        str(program),
        *("-key", str(key_file), "-schema", schema_id, *options),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    peer = GoPeer(process)
    try:
        yield peer
    finally:
        await peer.stop()
