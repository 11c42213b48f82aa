"""The console on a socket, by uvicorn, with limits on connections, slow requests and slow readers."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from culm_infra.errors import InfraError

HEAD_TIMEOUT_S: Final = 10.0
"""Time for sending the head of a request."""
READ_TIMEOUT_S: Final = 15.0
"""Time for reading what waits for a client; a slower one is disconnected."""
_AT_ONCE: Final = struct.pack("ii", 1, 0)
"""SO_LINGER value that discards unsent data when the socket is closed."""
_HEAD_BYTES: Final = 32_768
_SHUTDOWN_S: Final = 3


class ConsoleError(InfraError):
    """The console cannot be served."""

    code: ClassVar[str] = "infra.console"


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Limits on connections."""

    max_connections: int = 128
    head_timeout_s: float = HEAD_TIMEOUT_S
    read_timeout_s: float = READ_TIMEOUT_S


class _Config(uvicorn.Config):
    """Configuration that uvicorn passes to each connection."""

    def __init__(self, app: ASGIApp, limits: ServerLimits, **config: Any) -> None:
        self.bounds = limits
        super().__init__(app, http=ConsoleConnection, **config)


class ConsoleConnection(H11Protocol):
    """A connection that is cut off if there are too many, or if the client is too slow."""

    _bounds: ServerLimits
    _asking: asyncio.TimerHandle | None = None
    _leaving: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Set up the limits of a new connection."""
        assert isinstance(self.config, _Config), "the server is started with it"
        self._bounds = self.config.bounds
        is_surplus = len(self.connections) >= self._bounds.max_connections
        super().connection_made(transport)
        if is_surplus:
            transport.abort()
        else:
            self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timers of a closed connection."""
        self._cancel_timers()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Receive bytes of a request; its head has to be complete in time."""
        if self._asking is None and self._is_between():
            self._expect_request()
        super().data_received(data)
        if not self._is_between() and self._asking is not None:
            self._asking.cancel()
            self._asking = None

    def pause_writing(self) -> None:
        """Give the client some time to read what waits for it."""
        super().pause_writing()
        if self._leaving is None:
            self._leaving = self.loop.call_later(self._bounds.read_timeout_s, self._cut_off)

    def resume_writing(self) -> None:
        """The client has read most of what waited for it."""
        if self._leaving is not None:
            self._leaving.cancel()
            self._leaving = None
        super().resume_writing()

    def _is_between(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _expect_request(self) -> None:
        self._asking = self.loop.call_later(self._bounds.head_timeout_s, self._cut_off)

    def _cut_off(self) -> None:
        # The system does not keep unsent data for the client either.
        bound = self.transport.get_extra_info("socket")
        if bound is not None:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        self.transport.abort()

    def _cancel_timers(self) -> None:
        for timer in (self._asking, self._leaving):
            if timer is not None:
                timer.cancel()
        self._asking = self._leaving = None


class _Server(uvicorn.Server):
    """A server inside another program, which keeps its own signal handlers."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen."""
        try:
            await super().startup(sockets)
        finally:
            self.ready.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture no signals."""
        yield


def listening_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address. Raises `ConsoleError`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        bound = socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        raise ConsoleError(
            f"the console cannot be served on {address_text(host, port)}: {error.strerror or error}",
            hint="choose another address with --listen; port 0 takes a free one",
        ) from error
    # Otherwise an event waits for the acknowledgement of the previous one, which the client delays.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return bound


def address_text(host: str, port: int) -> str:
    """Return `HOST:PORT`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@asynccontextmanager
async def serve(
    app: ASGIApp, bound: socket.socket, limits: ServerLimits, tls: tuple[Path, Path] | None = None
) -> AsyncIterator[None]:
    """Serve while the context is open. `tls` are the files of the certificate and of its key.

    Raises `ConsoleError` if these cannot be used.
    """
    try:
        config = _Config(
            app,
            limits,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=_HEAD_BYTES,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=_SHUTDOWN_S,
            ssl_certfile=None if tls is None else tls[0],
            ssl_keyfile=None if tls is None else tls[1],
            # Nobody is asked for the password of a key on the terminal.
            ssl_keyfile_password=None if tls is None else "",
        )
        config.load()
    except (OSError, ssl.SSLError, ValueError) as error:
        bound.close()
        raise ConsoleError(
            f"the certificate or its key cannot be used: {error}",
            hint="console.tls_certificate and console.tls_key are PEM files: see `culm settings check`",
        ) from error
    server = _Server(config)
    serving = asyncio.create_task(server.serve([bound]))
    try:
        await server.ready.wait()
        yield
    finally:
        server.should_exit = True
        await serving
        with contextlib.suppress(OSError):
            bound.close()
