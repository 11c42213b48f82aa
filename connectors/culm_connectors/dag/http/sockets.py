"""Connections, counted from when they are accepted: also while TLS is agreed on, and nobody sees them."""

from __future__ import annotations

import socket
import struct
from collections import Counter
from typing import Any, Final

from culm_connectors.dag.http.clients import neighbourhood
from culm_connectors.dag.http.settings import DagHttpSettings

AT_ONCE: Final = struct.pack("ii", 1, 0)
"""Of SO_LINGER: nothing that is left is sent."""
_REFUSED_AT_ONCE: Final = 64


class OpenConnections:
    """How many connections there are, by address."""

    def __init__(self, settings: DagHttpSettings) -> None:
        self._settings = settings
        self._of_address: Counter[str] = Counter()

    def enter(self, host: str) -> bool:
        """Whether there is room for one more; it counts from now on."""
        settings = self._settings
        if self._of_address.total() >= settings.max_connections:
            return False
        if self._of_address[host] >= settings.max_connections_per_address:
            return False
        self._of_address[host] += 1
        return True

    def leave(self, host: str) -> None:
        """One that had room is gone."""
        self._of_address[host] -= 1
        if not self._of_address[host]:
            del self._of_address[host]


class CountedListener(socket.socket):
    """A listening socket that accepts those for whom there is room, and cuts the others off."""

    def __init__(self, listening: socket.socket, connections: OpenConnections) -> None:
        super().__init__(fileno=listening.detach())
        self._connections = connections

    def accept(self) -> tuple[socket.socket, Any]:
        """See `socket`."""
        for _ in range(_REFUSED_AT_ONCE):
            accepted, address = super().accept()
            host = neighbourhood(str(address[0]))
            if self._connections.enter(host):
                return _CountedSocket(accepted, self._connections, host), address
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
            accepted.close()
        raise BlockingIOError("others have their turn")


class _CountedSocket(socket.socket):
    """One connection, which counts until it is closed."""

    def __init__(self, accepted: socket.socket, connections: OpenConnections, host: str) -> None:
        super().__init__(fileno=accepted.detach())
        self._connections: OpenConnections | None = connections
        self._host = host

    def close(self) -> None:
        """See `socket`."""
        connections, self._connections = self._connections, None
        if connections is not None:
            connections.leave(self._host)
        super().close()
