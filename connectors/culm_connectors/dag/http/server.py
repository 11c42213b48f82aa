"""The door on a socket, by uvicorn: what of connections its application never sees is bounded here.

How long one may take to say a request, and how long it may leave answers lying.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any, Final

import h11
import uvicorn
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.h11_impl import H11Protocol

from culm_connectors.dag.errors import DagDoorError
from culm_connectors.dag.http.access import DoorAccess
from culm_connectors.dag.http.app import dag_app
from culm_connectors.dag.http.settings import DagHttpSettings
from culm_connectors.dag.http.sockets import AT_ONCE, ClosingWhenCrowded, CountedListener, OpenConnections
from culm_connectors.dag.room import DagRoom
from culm_connectors.rate_limit import LeastRate, TokenBuckets
from culm_connectors.transport.principal import neighbourhood

_HEAD_BYTES: Final = 32_768
_SHUTDOWN_S: Final = 5
_PARTS_AT_ONCE: Final = 64
"""So many parts of requests are dealt with before others have their turn on the event loop."""


class DoorConfig(uvicorn.Config):
    """What uvicorn hands to each connection, and our bounds beside it."""

    def __init__(self, app: Any, settings: DagHttpSettings, **given: Any) -> None:
        self.bounds = settings
        self.parts = TokenBuckets(settings.parts_per_second, settings.burst_parts, settings.max_clients)
        super().__init__(app, http=BoundedHttp, **given)


class PartedConnection(h11.Connection):
    """Gives out a bounded number of parts at a time: heads, chunks and ends of requests.

    What is read at once may hold ten thousands of them, where a body comes in chunks of a byte.
    """

    def __init__(self, max_head_bytes: int) -> None:
        super().__init__(h11.SERVER, max_head_bytes)
        self.parts = 0
        """Parts that were given out in this turn."""

    @property
    def is_left(self) -> bool:
        """Whether there may be further parts in what was read."""
        return self.parts >= _PARTS_AT_ONCE

    def next_event(self) -> Any:
        """See `h11.Connection`."""
        if self.is_left:
            return h11.NEED_DATA
        event = super().next_event()
        if event is not h11.NEED_DATA and event is not h11.PAUSED:
            self.parts += 1
        return event


class HeldFlow(FlowControl):
    """Nothing is read while parts wait, whatever the application asks for."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__(transport)
        self._is_held = False

    def hold(self) -> None:
        """Read nothing until `let_go`."""
        self._is_held = True
        self._transport.pause_reading()

    def let_go(self) -> None:
        """Read again, unless the application has enough."""
        self._is_held = False
        if not self.read_paused:
            self._transport.resume_reading()

    def resume_reading(self) -> None:
        """See `FlowControl`."""
        if self._is_held:
            self.read_paused = False
        else:
            super().resume_reading()


class BoundedHttp(H11Protocol):
    """A connection that is cut off when it takes too long to ask, or to take what it is answered."""

    conn: PartedConnection
    flow: HeldFlow

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin."""
        config = self.config
        assert isinstance(config, DoorConfig), "the server is started with it"
        self._bounds = config.bounds
        self._parts = config.parts
        self.conn = PartedConnection(_HEAD_BYTES)
        self._going_on: asyncio.TimerHandle | None = None
        self._asking: asyncio.TimerHandle | None = None
        self._leaving: asyncio.TimerHandle | None = None
        bounds = config.bounds
        self._rate = LeastRate(bounds.write_bytes_per_second, bounds.write_timeout_s)
        super().connection_made(transport)
        # What the system does not take is what the client does not take: all of it counts.
        transport.set_write_buffer_limits(high=1, low=0)
        self.flow = HeldFlow(transport)
        self._host = neighbourhood(self.client[0] if self.client is not None else "")
        self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        self._set_asked()
        self._set_taken()
        if self._going_on is not None:
            self._going_on.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes of a request; its head has to be whole in time, however it trickles."""
        if self._asking is None and self._is_between():
            self._expect_request()
        super().data_received(data)
        if not self._is_between():
            self._set_asked()

    def handle_events(self) -> None:
        """Deal with some of what was read; with more of it when others had their turn, and it is allowed."""
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
        """The client does not take what is waiting for it."""
        super().pause_writing()
        if self._leaving is None:
            self._rate.begin(-self.transport.get_write_buffer_size(), self.loop.time())
            self._leaving = self.loop.call_later(max(0.0, self._rate.spare_s), self._look_at_taken)

    def resume_writing(self) -> None:
        """It took some of it."""
        self._count_taken()
        self._set_taken()
        super().resume_writing()

    def _count_taken(self) -> float:
        # Nothing is written while the client is waited for: what is left less was taken.
        return self._rate.count(-self.transport.get_write_buffer_size(), self.loop.time())

    def _look_at_taken(self) -> None:
        spare_s = self._count_taken()
        if spare_s <= 0:
            self._cut_off()
        else:
            self._leaving = self.loop.call_later(spare_s, self._look_at_taken)

    def _is_between(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _expect_request(self) -> None:
        self._asking = self.loop.call_later(self._bounds.head_timeout_s, self._cut_off)

    def _cut_off(self) -> None:
        # What the client has not taken is not kept for it by the system either.
        bound = self.transport.get_extra_info("socket")
        if bound is not None:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
        self.transport.abort()

    def _set_asked(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            self._asking = None

    def _set_taken(self) -> None:
        if self._leaving is not None:
            self._leaving.cancel()
            self._leaving = None


def listening_socket(settings: DagHttpSettings) -> socket.socket:
    """A socket that listens where the settings say. Error: `DagDoorError`."""
    try:
        bound = socket.create_server((settings.host, settings.port), backlog=128)
    except OSError as error:
        raise DagDoorError(f"{settings.host}:{settings.port} cannot be served: {error}") from error
    # Head and body of an answer are two writes: with Nagle's algorithm the second waits for an
    # acknowledgement that the client delays. Asyncio turns it off only on sockets that it made itself.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return bound


@asynccontextmanager
async def serve_http(
    room: DagRoom, settings: DagHttpSettings, access: DoorAccess | None = None
) -> AsyncIterator[str]:
    """Serve a room while the context lasts; gives the door's URL. Error: `DagDoorError`."""
    connections = OpenConnections(settings)
    bound = CountedListener(listening_socket(settings), connections)
    tls = settings.tls
    try:
        config = DoorConfig(
            ClosingWhenCrowded(dag_app(room, settings, access), connections),
            settings,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=_HEAD_BYTES,
            timeout_keep_alive=max(1, int(settings.head_timeout_s)),
            timeout_graceful_shutdown=_SHUTDOWN_S,
            ssl_certfile=None if tls is None else tls.certificate,
            ssl_keyfile=None if tls is None else tls.private_key,
        )
        config.load()
    except OSError as error:
        bound.close()
        raise DagDoorError(f"the certificate or its key cannot be used: {error}") from error
    server = _Server(config)
    serving = asyncio.create_task(server.serve([bound]))
    admitting = asyncio.create_task(server.serve_admitted(connections))
    try:
        await server.ready.wait()
        host, port = bound.getsockname()[:2]
        yield f"{'http' if tls is None else 'https'}://{f'[{host}]' if ':' in host else host}:{port}"
    finally:
        server.should_exit = True
        admitting.cancel()
        await asyncio.wait([admitting])
        await serving
        connections.close()
        bound.close()


class _Server(uvicorn.Server):
    """A server inside of another program, which keeps its own signals."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        try:
            await super().startup(sockets)
        finally:
            self.ready.set()

    async def serve_admitted(self, connections: OpenConnections) -> None:
        """Serve connections that had to wait, as they are admitted, until cancelled."""
        protocol = partial(BoundedHttp, self.config, self.server_state, self.lifespan.state)
        await self.ready.wait()
        async with asyncio.TaskGroup() as group:
            while True:
                group.create_task(self._serve_one(protocol, await connections.admitted.get()))

    async def _serve_one(self, protocol: Callable[[], asyncio.Protocol], accepted: socket.socket) -> None:
        try:
            # Returns once the connection is served, which over TLS is behind the handshake.
            await asyncio.get_running_loop().connect_accepted_socket(protocol, accepted, ssl=self.config.ssl)
        except OSError:
            accepted.close()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """None are captured."""
        yield
