"""The console on a socket, by uvicorn, with limits on connections, slow requests and slow readers."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from starlette.types import ASGIApp

from culm_connectors.http_server import EmbeddedServer, HttpConfig, LimitedConnection, listening_socket
from culm_connectors.url import address_text
from culm_infra.errors import InfraError

HEAD_TIMEOUT_S: Final = 10.0
"""Time for sending the head of a request."""
READ_TIMEOUT_S: Final = 15.0
"""Time for reading what waits for a client; a slower one is disconnected."""
_KEEP_ALIVE_S: Final = 30
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


class _Config(HttpConfig):
    """Configuration that uvicorn passes to each connection."""

    def __init__(self, app: ASGIApp, limits: ServerLimits, tls: tuple[Path, Path] | None) -> None:
        super().__init__(
            app,
            ConsoleConnection,
            head_timeout_s=limits.head_timeout_s,
            keep_alive_s=_KEEP_ALIVE_S,
            shutdown_s=_SHUTDOWN_S,
            tls=tls,
        )
        self.bounds = limits


class ConsoleConnection(LimitedConnection):
    """A connection that is cut off if there are too many, or if the client is too slow."""

    _bounds: ServerLimits

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Set up the limits of a new connection."""
        assert isinstance(self.config, _Config), "the server is started with it"
        self._bounds = self.config.bounds
        is_surplus = len(self.connections) >= self._bounds.max_connections
        super().connection_made(transport)
        if is_surplus:
            transport.abort()

    def pause_writing(self) -> None:
        """Give the client some time to read what waits for it."""
        super().pause_writing()
        if self._reading is None:
            self._reading = self.loop.call_later(self._bounds.read_timeout_s, self.cut_off)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address. Raises `ConsoleError`."""
    try:
        return listening_socket(host, port)
    except OSError as error:
        raise ConsoleError(
            f"the console cannot be served on {address_text(host, port)}: {error.strerror or error}",
            hint="choose another address with --listen; port 0 takes a free one",
        ) from error


@asynccontextmanager
async def serve(
    app: ASGIApp, bound: socket.socket, limits: ServerLimits, tls: tuple[Path, Path] | None = None
) -> AsyncIterator[None]:
    """Serve while the context is open. `tls` are the files of the certificate and of its key.

    Raises `ConsoleError` if these cannot be used.
    """
    try:
        config = _Config(app, limits, tls)
        config.load()
    except (OSError, ValueError) as error:
        raise ConsoleError(
            f"the certificate or its key cannot be used: {error}",
            hint="console.tls_certificate and console.tls_key are PEM files: see `culm settings check`",
        ) from error
    server = EmbeddedServer(config)
    serving = asyncio.create_task(server.serve([bound]))
    try:
        await server.ready.wait()
        yield
    finally:
        server.should_exit = True
        await serving
