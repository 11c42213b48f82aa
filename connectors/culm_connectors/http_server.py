"""An HTTP server by uvicorn inside another program, with time limits on each connection.

The HTTP door of DAGs and the console extend its connections by their own limits.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_HEAD_BYTES: Final = 32_768
_AT_ONCE: Final = struct.pack("ii", 1, 0)


class HttpConfig(uvicorn.Config):
    """Configuration that uvicorn passes to each connection.

    `tls` are the files of the certificate and of its key. `load` raises `OSError` if they cannot be used.
    """

    def __init__(
        self,
        app: ASGIApp,
        connection: type[LimitedConnection],
        *,
        head_timeout_s: float,
        keep_alive_s: int,
        shutdown_s: int,
        tls: tuple[Path, Path] | None,
    ) -> None:
        self.head_timeout_s = head_timeout_s
        """Time for sending the head of a request."""
        certificate, key = tls or (None, None)
        super().__init__(
            app,
            http=connection,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=MAX_HEAD_BYTES,
            timeout_keep_alive=keep_alive_s,
            timeout_graceful_shutdown=shutdown_s,
            ssl_certfile=certificate,
            ssl_keyfile=key,
            # A key that needs a password is refused: without one here, OpenSSL would ask on the terminal.
            ssl_keyfile_password="none",
        )


class LimitedConnection(H11Protocol):
    """A connection that is cut off if the head of a request takes too long.

    Subclasses set `_reading`, the timer of a client that does not read what waits for it.
    """

    _asking: asyncio.TimerHandle | None = None
    _reading: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Expect the first request."""
        super().connection_made(transport)
        self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timers of a closed connection."""
        self._end_asking()
        self._end_reading()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Receive bytes of a request; its head has to be complete in time, however small its pieces."""
        if self._asking is None and self._is_between():
            self._expect_request()
        super().data_received(data)
        if not self._is_between():
            self._end_asking()

    def resume_writing(self) -> None:
        """Cancel the timer of reading, as the client has read what waited for it."""
        self._end_reading()
        super().resume_writing()

    def cut_off(self) -> None:
        """Close the connection at once. The system does not keep unsent data for the client either."""
        if (bound := self.transport.get_extra_info("socket")) is not None:
            discard_unsent(bound)
        self.transport.abort()

    def _is_between(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _expect_request(self) -> None:
        assert isinstance(self.config, HttpConfig), "the server is started with it"
        self._asking = self.loop.call_later(self.config.head_timeout_s, self.cut_off)

    def _end_asking(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            self._asking = None

    def _end_reading(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None


class EmbeddedServer(uvicorn.Server):
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
    """Return a socket that listens on an address. Raises `OSError`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.create_server((host, port), family=family, backlog=128)
    # Head and body of an answer, or two events, are two writes: with Nagle's algorithm the second waits for
    # an acknowledgement that the client delays. Asyncio turns it off only on sockets that it made itself.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return bound


def discard_unsent(bound: socket.socket) -> None:
    """Make the system discard unsent data when the socket is closed."""
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
