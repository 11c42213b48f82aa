"""Connections, counted from when they are accepted: during the TLS handshake, too."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter, OrderedDict, deque
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from culm_connectors.dag.http.settings import DoorLimits
from culm_connectors.http_server import discard_unsent
from culm_connectors.transport.principal import neighbourhood

_REFUSED_AT_ONCE: Final = 64


class HttpConnections:
    """Connections by address: a bounded number is served at once, and a bounded number waits to be served."""

    def __init__(self, limits: DoorLimits) -> None:
        self._limits = limits
        self._served: Counter[str] = Counter()
        self._served_count = 0
        self._waiting: OrderedDict[str, deque[socket.socket]] = OrderedDict()
        self._waiting_count = 0
        self.admitted: asyncio.Queue[socket.socket] = asyncio.Queue()
        """Connections that have waited, and are to be served now."""

    def enter(self, host: str) -> bool:
        """Count a further connection as served if the limits allow it; returns whether they do."""
        limits = self._limits
        if self._served_count >= limits.max_connections:
            return False
        if self._served[host] >= limits.max_connections_per_address:
            return False
        self._served[host] += 1
        self._served_count += 1
        return True

    def wait(self, host: str, accepted: socket.socket) -> bool:
        """Keep a connection until one is closed and it may be served; False if too many wait already."""
        limits, line = self._limits, self._waiting.get(host, ())
        if self._waiting_count >= limits.max_waiting_connections:
            return False
        if len(line) >= limits.max_waiting_connections_per_address:
            return False
        self._waiting.setdefault(host, deque()).append(accepted)
        self._waiting_count += 1
        return True

    def has_waiting(self, host: str) -> bool:
        """Return whether a connection of an address waits."""
        return host in self._waiting

    def leave(self, host: str) -> None:
        """Stop counting a connection that was closed, and admit the next waiting one that may be served."""
        self._served_count -= 1
        self._served[host] -= 1
        if not self._served[host]:
            del self._served[host]
        for other in self._waiting:
            if self.enter(other):
                self._admit(other)
                return

    def _admit(self, host: str) -> None:
        line = self._waiting[host]
        self.admitted.put_nowait(CountedSocket(line.popleft(), self, host))
        self._waiting_count -= 1
        if line:
            # Addresses take turns.
            self._waiting.move_to_end(host)
        else:
            del self._waiting[host]

    def close(self) -> None:
        """Close the waiting connections."""
        for line in self._waiting.values():
            for accepted in line:
                accepted.close()
        self._waiting.clear()
        self._waiting_count = 0
        while not self.admitted.empty():
            self.admitted.get_nowait().close()


class CountedListener(socket.socket):
    """A listening socket that accepts connections that may be served; others wait, or are cut off."""

    def __init__(self, listening: socket.socket, connections: HttpConnections) -> None:
        super().__init__(fileno=listening.detach())
        self._connections = connections

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept the next connection that may be served; others wait, or are cut off."""
        for _ in range(_REFUSED_AT_ONCE):
            accepted, address = super().accept()
            host = neighbourhood(str(address[0]))
            if self._connections.enter(host):
                return CountedSocket(accepted, self._connections, host), address
            if not self._connections.wait(host, accepted):
                discard_unsent(accepted)
                accepted.close()
        raise BlockingIOError("others have their turn")


class CountedSocket(socket.socket):
    """One connection, which counts until it is closed."""

    def __init__(self, accepted: socket.socket, connections: HttpConnections, host: str) -> None:
        super().__init__(fileno=accepted.detach())
        self._connections: HttpConnections | None = connections
        self._host = host

    def close(self) -> None:
        """Close the socket, and stop counting it."""
        connections, self._connections = self._connections, None
        super().close()
        if connections is not None:
            connections.leave(self._host)


class ClosingWhenCrowded:
    """Closes a connection after an answer (`Connection: close`) if another one of its address waits."""

    def __init__(self, app: ASGIApp, connections: HttpConnections) -> None:
        self._app = app
        self._connections = connections

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        host = neighbourhood(str((scope.get("client") or ("",))[0]))

        async def send_closing(message: Message) -> None:
            if message["type"] == "http.response.start" and self._connections.has_waiting(host):
                message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
            await send(message)

        await self._app(scope, receive, send_closing)
