"""Connections of browsers are limited, and slow ones are cut off."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import httpx
import pytest

from culm_infra.console import run
from culm_infra.console.server import ServerLimits
from tests.support.console.served import ServedConsole, serving

pytestmark = pytest.mark.timeout(300)


def _address(console: ServedConsole) -> tuple[str, int]:
    host, _, port = console.served.address.rpartition(":")
    return host, int(port)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        run, "ServerLimits", lambda most: ServerLimits(most, head_timeout_s=0.5, read_timeout_s=0.5)
    )


async def _is_cut_off(reader: asyncio.StreamReader) -> None:
    """Return when the connection is closed, however it is; the test's limit ends the waiting."""
    try:
        while await reader.read(65_536):
            pass
    except ConnectionError:
        pass


@pytest.mark.usefixtures("impatient")
async def test_a_client_that_sends_no_request_is_cut_off() -> None:
    async with serving() as console:
        for sent in (b"", b"GET / HTTP/1.1\r\nHost: x\r\n"):
            reader, writer = await asyncio.open_connection(*_address(console))
            writer.write(sent)
            await _is_cut_off(reader)
            writer.close()
        assert await console.overview()


@pytest.mark.usefixtures("impatient")
async def test_a_browser_that_does_not_read_events_is_dropped(tmp_path: Path) -> None:
    # Many targets make a large overview, which fills the buffers of the connection.
    targets = [f"unix:{tmp_path}/{'x' * 200}-{number}/status.sock" for number in range(500)]
    async with serving(targets=targets) as console:
        with socket.socket() as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            slow.setblocking(False)
            await asyncio.get_running_loop().sock_connect(slow, _address(console))
            head = f"GET /api/events?token={console.served.token} HTTP/1.1\r\nHost: x\r\n\r\n"
            await asyncio.get_running_loop().sock_sendall(slow, head.encode())
            while True:
                await asyncio.sleep(0.2)
                # Nothing is read, so that only a reset ends the connection.
                if slow.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                    break
        assert len((await console.overview())["edges"]) == 500


async def test_connections_beyond_the_limit_are_closed_at_once() -> None:
    async with serving(max_connections=4) as console:
        assert await console.overview()
        held = [await asyncio.open_connection(*_address(console)) for _ in range(3)]
        with pytest.raises(httpx.TransportError):
            async with httpx.AsyncClient() as further:
                await further.get(console.client.base_url)
        # Those that are open still work, and one that is closed makes room.
        assert await console.overview()
        held[0][1].close()
        while True:
            try:
                async with httpx.AsyncClient() as further:
                    assert (await further.get(console.client.base_url)).status_code == 401
                break
            except httpx.TransportError:
                await asyncio.sleep(0.05)
        for _, writer in held[1:]:
            writer.close()


async def test_a_stop_ends_the_streams_of_events() -> None:
    async with serving() as console:
        request = console.client.stream("GET", "/api/events", timeout=30)
        answer = await request.__aenter__()
        lines = answer.aiter_lines()
        assert await anext(lines) == "retry: 2000"
    with pytest.raises((StopAsyncIteration, httpx.TransportError, httpx.StreamError)):
        while True:
            await anext(lines)
