"""Clients behind requests, and limits on what each may use of this process."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Final

from starlette.requests import Request

from culm_connectors.dag.http.problems import TooManyRequests
from culm_connectors.dag.http.settings import DagHttpSettings
from culm_connectors.rate_limit import TokenBuckets
from culm_connectors.transport.principal import neighbourhood

_BEARER: Final = "bearer "


@dataclass(slots=True)
class _Line:
    """The requests of one client: `used` have a place, the others wait for one."""

    used: int = 0
    waiting: deque[asyncio.Future[None]] = field(default_factory=deque)


class Places:
    """Limits on concurrent work, per client and in total; further requests wait, in a queue per client.

    Beyond its first place a client gets another one only while it has fewer than are free: of N clients that
    take all they can get, each has one part in N + 1, and as much stays free for others.
    """

    def __init__(self, of_client: int, in_all: int, waiting_of_client: int) -> None:
        self._of_client = of_client
        self._free = in_all
        self._waiting_of_client = waiting_of_client
        self._lines: dict[str, _Line] = {}

    async def enter(self, client: str) -> Callable[[], None]:
        """Wait for a place; returns the function that leaves it, to be called once or more.

        Raises `TooManyRequests` if the client's queue is full.
        """
        line = self._lines.setdefault(client, _Line())
        if line.waiting or not self._may_enter(line):
            await self._wait(client, line)
        else:
            self._take(line)
        entered = [line]

        def leave() -> None:
            if entered:
                entered.clear()
                self._leave(client, line)

        return leave

    @asynccontextmanager
    async def take(self, client: str) -> AsyncIterator[None]:
        """Hold a place while the context lasts. Raises `TooManyRequests` if the client's queue is full."""
        leave = await self.enter(client)
        try:
            yield
        finally:
            leave()

    def _may_enter(self, line: _Line) -> bool:
        if not line.used:
            return self._free > 0
        return line.used < min(self._of_client, self._free)

    def _take(self, line: _Line) -> None:
        line.used += 1
        self._free -= 1

    async def _wait(self, client: str, line: _Line) -> None:
        if len(line.waiting) >= self._waiting_of_client:
            self._forget_idle(client, line)
            raise TooManyRequests("more requests at once than may wait of this client")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                if turn in line.waiting:
                    line.waiting.remove(turn)
                self._forget_idle(client, line)
            else:
                self._leave(client, line)
            raise

    def _leave(self, client: str, line: _Line) -> None:
        line.used -= 1
        self._free += 1
        self._forget_idle(client, line)
        while (name := self._next_client()) is not None:
            # Clients take turns.
            next_line = self._lines[name] = self._lines.pop(name)
            turn = next_line.waiting.popleft()
            if not turn.cancelled():
                self._take(next_line)
                turn.set_result(None)

    def _next_client(self) -> str | None:
        """Return the client with the fewest places among those that may get another one."""
        waiting = (name for name, line in self._lines.items() if line.waiting and self._may_enter(line))
        return min(waiting, key=lambda name: self._lines[name].used, default=None)

    def _forget_idle(self, client: str, line: _Line) -> None:
        if not line.used and not line.waiting:
            self._lines.pop(client, None)


@dataclass(frozen=True, slots=True)
class HttpClient:
    """The client of a request, named by its token or else by its address."""

    name: str
    token: str | None
    host: str = ""
    """The address from which the request came."""

    @property
    def peer(self) -> bytes:
        """Return the 32 bytes that identify the client in a service."""
        return hashlib.sha256(f"http:{self.name}".encode()).digest()


def client_of(request: Request, has_token: Callable[[str], bool]) -> HttpClient:
    """Return the client of a request; a token that is not configured is named by its address."""
    authorization = request.headers.get("authorization", "")
    token = authorization[len(_BEARER) :].strip() if authorization.lower().startswith(_BEARER) else None
    host = request.client.host if request.client is not None else ""
    if token is not None and has_token(token):
        return HttpClient(f"token:{hashlib.sha256(token.encode()).hexdigest()}", token, host)
    return HttpClient(f"address:{neighbourhood(host)}", token, host)


class ClientBudgets:
    """Budgets of each client: requests, reads, bodies with their bytes, and streams of events."""

    def __init__(self, settings: DagHttpSettings, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._clock_s = clock_s
        limit = settings.max_clients
        self._requests = TokenBuckets(settings.requests_per_second, settings.burst_requests, limit)
        self._bytes = TokenBuckets(settings.bytes_per_second, settings.burst_bytes, limit)
        self._streams: Counter[str] = Counter()
        waiting = settings.max_waiting_per_client
        self.bodies = Places(settings.max_bodies_per_client, settings.max_bodies, waiting)
        self.reads = Places(settings.max_reads_per_client, settings.max_reads, waiting)

    async def take_request(self, client: HttpClient) -> None:
        """Wait until a client may make another request. Raises `TooManyRequests` if that takes too long."""
        bucket = self._requests.of(client.name)
        wait_s = bucket.wait_s(1, self._clock_s())
        if wait_s > self._settings.request_wait_s:
            bucket.put_back(1)
            raise TooManyRequests("more requests than this client may make")
        if wait_s:
            await asyncio.sleep(wait_s)

    async def take_bytes(self, client: HttpClient, count: int) -> None:
        """Wait until a client may send so many more bytes."""
        wait_s = self._bytes.of(client.name).wait_s(count, self._clock_s())
        if wait_s:
            await asyncio.sleep(wait_s)

    def require_stream(self, client: HttpClient) -> None:
        """Raise `TooManyRequests` if there is no capacity for a further stream of events."""
        settings = self._settings
        if self._streams.total() >= settings.max_event_streams:
            raise TooManyRequests("no capacity for a further stream of events")
        if self._streams[client.name] >= settings.max_event_streams_per_client:
            raise TooManyRequests("more streams of events than this client may have")

    @contextmanager
    def streaming(self, client: HttpClient) -> Iterator[None]:
        """Count one stream of events while the context lasts. Raises `TooManyRequests`."""
        self.require_stream(client)
        self._streams[client.name] += 1
        try:
            yield
        finally:
            self._streams[client.name] -= 1
            if not self._streams[client.name]:
                del self._streams[client.name]
