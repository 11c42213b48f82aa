"""The end of a door whose process drains: clients connect elsewhere, and pending requests are answered.

Once `begun` is set, requests over new connections are answered with 503 and `dag.http.shutting_down`, every
other answer closes its connection, and event streams end. Idle connections are ended by `endings`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from culm_connectors.dag.http.problems import ShuttingDown, problem
from culm_connectors.edge.serving import Ending

LATE: Final = "culm.late"
"""Key in a connection's state: it was accepted after the end had begun."""


class HttpConnection(Protocol):
    """An open connection."""

    def shutdown(self) -> None:
        """Close the connection, after the answer to its current request."""
        ...


class ClosingDoor:
    """The end of one door, and the connections that are open until then."""

    def __init__(self, begun: asyncio.Event | None = None) -> None:
        self.begun = begun or asyncio.Event()
        self._open: set[HttpConnection] = set()

    def connection_opened(self, connection: HttpConnection) -> bool:
        """Note a new connection; returns whether it was opened too late to be served.

        A late connection has no ending: the answer to its first request closes it.
        """
        if self.begun.is_set():
            return True
        self._open.add(connection)
        return False

    def connection_closed(self, connection: HttpConnection) -> None:
        """Forget a connection that has ended."""
        self._open.discard(connection)

    def endings(self) -> Sequence[Ending]:
        """Return functions that each end one connection, after the answer to its current request."""
        return [connection.shutdown for connection in self._open]


class ClosingApp:
    """Passes requests on, except those over connections that were opened after the end had begun."""

    def __init__(self, app: ASGIApp, closing: ClosingDoor) -> None:
        self._app = app
        self._closing = closing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""

        async def send_closing(message: Message) -> None:
            if message["type"] == "http.response.start" and self._closing.begun.is_set():
                message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
            await send(message)

        if scope.get("state", {}).get(LATE):
            refusal = problem(ShuttingDown.status, ShuttingDown.code, "this connector stops: ask again")
            await refusal(scope, receive, send_closing)
        else:
            await self._app(scope, receive, send_closing)
