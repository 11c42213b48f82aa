"""Targets over real sockets: what they answer, and how, is up to the test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def answers(*parts: bytes, pause_s: float = 0.0) -> Serve:
    """Send these parts, each after a pause, and close."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for part in parts:
            await asyncio.sleep(pause_s)
            writer.write(part)
            await writer.drain()

    return serve


async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send zeros for as long as the client reads."""
    while True:
        writer.write(b"0" * 65_536)
        await writer.drain()


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send nothing, and wait until the client leaves."""
    await reader.read()


def http(metrics: bytes, ready: bytes = b"ready\n", *, status: int = 200, ready_status: int = 200) -> Serve:
    """Serve metrics and readiness as a process of Culm does."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        is_metrics = head.startswith(b"GET /metrics ")
        code, body = (status, metrics) if is_metrics else (ready_status, ready)
        writer.write(b"HTTP/1.0 %d Text\r\nContent-Length: %d\r\n\r\n%b" % (code, len(body), body))
        await writer.drain()

    return serve


def after_request(serve: Serve) -> Serve:
    """Read some of the request first: an answer to unread data may be lost with the connection."""

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = asyncio.StreamReader()
        request.feed_data(await reader.readuntil(b"\r\n\r\n"))
        await serve(request, writer)

    return served


def _closing(serve: Serve) -> Serve:
    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    return served


@asynccontextmanager
async def at_socket(path: Path, serve: Serve) -> AsyncIterator[str]:
    """Serve at a Unix socket; yields the target."""
    path.parent.mkdir(parents=True, exist_ok=True)
    server = await asyncio.start_unix_server(_closing(serve), path)
    try:
        yield f"unix:{path}"
    finally:
        server.close()


@asynccontextmanager
async def at_port(serve: Serve) -> AsyncIterator[str]:
    """Serve at a port; yields the target."""
    server = await asyncio.start_server(_closing(serve), "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
