"""The door on a socket, by uvicorn, with limits on connections that the application cannot enforce.

They limit how long a client may take to send a request, and how long it may leave answers unread.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

import h11
from starlette.types import ASGIApp
from uvicorn.protocols.http.flow_control import FlowControl

from culm_connectors.dag.errors import DagDoorError
from culm_connectors.dag.http.access import DoorAccess
from culm_connectors.dag.http.app import dag_app
from culm_connectors.dag.http.closing import LATE, ClosingApp, ClosingDoor
from culm_connectors.dag.http.event_sources import EventSources
from culm_connectors.dag.http.settings import DagHttpSettings
from culm_connectors.dag.http.sockets import ClosingWhenCrowded, CountedListener, HttpConnections
from culm_connectors.dag.service import DagService
from culm_connectors.http_server import (
    MAX_HEAD_BYTES,
    EmbeddedServer,
    HttpConfig,
    LimitedConnection,
    listening_socket,
)
from culm_connectors.rate_limit import LeastRate, TokenBuckets
from culm_connectors.transport.principal import neighbourhood
from culm_connectors.url import address_text

_SHUTDOWN_S: Final = 5
_PARTS_AT_ONCE: Final = 64
"""Parts of requests that are processed before others have their turn on the event loop."""


class DoorConfig(HttpConfig):
    """Configuration that uvicorn passes to each connection, with the limits of the door."""

    def __init__(self, app: ASGIApp, settings: DagHttpSettings, closing: ClosingDoor) -> None:
        tls = settings.tls
        super().__init__(
            app,
            BoundedHttp,
            head_timeout_s=settings.head_timeout_s,
            keep_alive_s=max(1, int(settings.head_timeout_s)),
            shutdown_s=_SHUTDOWN_S,
            tls=None if tls is None else (tls.certificate, tls.private_key),
        )
        self.bounds = settings
        self.closing = closing
        self.parts = TokenBuckets(settings.parts_per_second, settings.burst_parts, settings.max_clients)


class PartedConnection(h11.Connection):
    """Returns a bounded number of parts at a time: heads, chunks and ends of requests.

    One read may contain tens of thousands of them, if a body comes in chunks of one byte.
    """

    def __init__(self, max_head_bytes: int) -> None:
        super().__init__(h11.SERVER, max_head_bytes)
        self.parts = 0
        """Parts that were returned in this turn."""

    @property
    def is_left(self) -> bool:
        """Return whether the data that was read may contain further parts."""
        return self.parts >= _PARTS_AT_ONCE

    def next_event(self) -> Any:
        """Return the next part, or NEED_DATA once this turn's limit is reached."""
        if self.is_left:
            return h11.NEED_DATA
        event = super().next_event()
        if event is not h11.NEED_DATA and event is not h11.PAUSED:
            self.parts += 1
        return event


class HeldFlow(FlowControl):
    """Flow control that reads nothing while parts wait, whatever the application requests."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__(transport)
        self._is_held = False

    def hold(self) -> None:
        """Stop reading until `let_go`."""
        self._is_held = True
        self._transport.pause_reading()

    def let_go(self) -> None:
        """Resume reading, unless the application has paused it."""
        self._is_held = False
        if not self.read_paused:
            self._transport.resume_reading()

    def resume_reading(self) -> None:
        """Resume reading at the application's request, at once or when parts no longer wait."""
        if self._is_held:
            self.read_paused = False
        else:
            super().resume_reading()


class BoundedHttp(LimitedConnection):
    """A connection that is cut off if the client is too slow to send a request or to read the answer."""

    conn: PartedConnection
    flow: HeldFlow

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Set up the limits of a new connection."""
        config = self.config
        assert isinstance(config, DoorConfig), "the server is started with it"
        self._parts = config.parts
        self._closing = config.closing
        self.conn = PartedConnection(MAX_HEAD_BYTES)
        self._going_on: asyncio.TimerHandle | None = None
        bounds = config.bounds
        self._rate = LeastRate(bounds.write_bytes_per_second, bounds.write_timeout_s)
        if config.closing.connection_opened(self):
            self.app_state = {**self.app_state, LATE: True}
        super().connection_made(transport)
        # Data that the system does not accept is data that the client does not read: all of it counts.
        transport.set_write_buffer_limits(high=1, low=0)
        self.flow = HeldFlow(transport)
        self._host = neighbourhood(self.client[0] if self.client is not None else "")

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timers of a closed connection."""
        if self._going_on is not None:
            self._going_on.cancel()
        self._closing.connection_closed(self)
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Process some of the parts that were read; the rest follows in later turns, as the rate allows."""
        if self._going_on is None:
            self.conn.parts = 0
            super().handle_events()
            wait_s = self._parts.of(self._host).wait_s(self.conn.parts, self.loop.time())
            if (wait_s or self.conn.is_left) and not self.transport.is_closing():
                self._going_on = self.loop.call_later(wait_s, self._go_on)
        if self._going_on is not None:
            self.flow.hold()

    def _go_on(self) -> None:
        self._going_on = None
        self.handle_events()
        if self._going_on is None:
            self.flow.let_go()

    def pause_writing(self) -> None:
        """Begin to measure how fast the client reads, as data waits for it."""
        super().pause_writing()
        if self._reading is None:
            self._rate.begin(-self.transport.get_write_buffer_size(), self.loop.time())
            self._reading = self.loop.call_later(max(0.0, self._rate.spare_s), self._look_at_taken)

    def resume_writing(self) -> None:
        """Stop measuring, as no data waits for the client any more."""
        self._count_taken()
        super().resume_writing()

    def _count_taken(self) -> float:
        # Nothing is written while the client is waited for, so the buffer shrinks by what the client takes.
        return self._rate.count(-self.transport.get_write_buffer_size(), self.loop.time())

    def _look_at_taken(self) -> None:
        spare_s = self._count_taken()
        if spare_s <= 0:
            self.cut_off()
        else:
            self._reading = self.loop.call_later(spare_s, self._look_at_taken)


def listen(settings: DagHttpSettings) -> socket.socket:
    """Return a socket that listens on the address of the settings. Raises `DagDoorError`."""
    try:
        return listening_socket(settings.host, settings.port)
    except OSError as error:
        raise DagDoorError(f"{settings.host}:{settings.port} cannot be served: {error}") from error


@asynccontextmanager
async def serve_http(
    service: DagService,
    settings: DagHttpSettings,
    access: DoorAccess | None = None,
    closing: ClosingDoor | None = None,
) -> AsyncIterator[str]:
    """Serve a service while the context lasts; yields the door's URL. Raises `DagDoorError`.

    `closing` ends the door before the context ends.
    """
    closing = closing or ClosingDoor()
    app = dag_app(service, settings, access)
    connections = HttpConnections(settings)
    bound = CountedListener(listen(settings), connections)
    try:
        config = DoorConfig(ClosingApp(ClosingWhenCrowded(app, connections), closing), settings, closing)
        config.load()
    except OSError as error:
        bound.close()
        raise DagDoorError(f"the certificate or its key cannot be used: {error}") from error
    server = _Server(config)
    serving = asyncio.create_task(server.serve([bound]))
    admitting = asyncio.create_task(server.serve_admitted(connections))
    ending = asyncio.create_task(_end_streams(app.state.events, closing))
    try:
        await server.ready.wait()
        host, port = bound.getsockname()[:2]
        yield f"{'http' if settings.tls is None else 'https'}://{address_text(host, port)}"
    finally:
        server.should_exit = True
        for task in (admitting, ending):
            task.cancel()
        await asyncio.wait([admitting, ending])
        await serving
        connections.close()
        bound.close()


async def _end_streams(events: EventSources, closing: ClosingDoor) -> None:
    await closing.begun.wait()
    events.end()


class _Server(EmbeddedServer):
    """The door's server, which also serves connections that had to wait."""

    async def serve_admitted(self, connections: HttpConnections) -> None:
        """Serve connections that had to wait, as they are admitted, until cancelled."""
        protocol = partial(BoundedHttp, self.config, self.server_state, self.lifespan.state)
        await self.ready.wait()
        async with asyncio.TaskGroup() as group:
            while True:
                group.create_task(self._serve_one(protocol, await connections.admitted.get()))

    async def _serve_one(self, protocol: Callable[[], asyncio.Protocol], accepted: socket.socket) -> None:
        try:
            # Returns once the connection is set up; over TLS that is after the handshake.
            await asyncio.get_running_loop().connect_accepted_socket(protocol, accepted, ssl=self.config.ssl)
        except OSError:
            accepted.close()
