"""Who is behind a request, and how much each may use of this process."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from ipaddress import ip_address, ip_network

from starlette.requests import Request

from culm_connectors.dag.http.problems import TooManyRequests
from culm_connectors.dag.http.settings import DagHttpSettings
from culm_connectors.edge.rate_limit import TokenBucket

_BEARER = "bearer "


@dataclass(frozen=True, slots=True)
class HttpClient:
    """Who asks: by a token, or else by an address."""

    name: str
    token: str | None

    @property
    def peer(self) -> bytes:
        """The 32 bytes that stand for it in a room."""
        return hashlib.sha256(f"http:{self.name}".encode()).digest()


def client_of(request: Request, has_token: Callable[[str], bool]) -> HttpClient:
    """Who asks. For a token that nobody has configured, the address stands."""
    given = request.headers.get("authorization", "")
    token = given[len(_BEARER) :].strip() if given.lower().startswith(_BEARER) else None
    host = request.client.host if request.client is not None else ""
    if token is not None and has_token(token):
        return HttpClient(f"token:{hashlib.sha256(token.encode()).hexdigest()}", token)
    return HttpClient(f"address:{neighbourhood(host)}", token)


def neighbourhood(host: str) -> str:
    """Who shares one budget: an address; of IPv6, all of a network of 64 bits, which one client has whole."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if address.version == 4:
        return host
    if (plain := address.ipv4_mapped) is not None:
        return str(plain)
    return str(ip_network((int(address) >> 64 << 64, 64)))


class Places:
    """So many at once of one client, and in all. Who comes behind waits, each client in its own row."""

    def __init__(self, of_client: int, in_all: int) -> None:
        self._of_client = of_client
        self._in_all = asyncio.Semaphore(in_all)
        self._rows: dict[str, tuple[asyncio.Semaphore, list[None]]] = {}

    @asynccontextmanager
    async def take(self, client: HttpClient) -> AsyncIterator[None]:
        """A place, while the context lasts."""
        row, users = self._rows.setdefault(client.name, (asyncio.Semaphore(self._of_client), []))
        users.append(None)
        try:
            async with row, self._in_all:
                yield
        finally:
            users.pop()
            if not users:
                del self._rows[client.name]


class ClientBudgets:
    """Requests, bytes of bodies, reads and streams of events, by client."""

    def __init__(self, settings: DagHttpSettings, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._clock_s = clock_s
        self._buckets: OrderedDict[str, tuple[TokenBucket, TokenBucket]] = OrderedDict()
        self._streams: Counter[str] = Counter()
        self._reads: Counter[str] = Counter()
        self.bodies = Places(settings.max_bodies_per_client, settings.max_bodies)

    def _of(self, client: HttpClient) -> tuple[TokenBucket, TokenBucket]:
        found = self._buckets.pop(client.name, None)
        if found is None:
            settings = self._settings
            found = (
                TokenBucket(settings.requests_per_second, settings.burst_requests),
                TokenBucket(settings.bytes_per_second, settings.burst_bytes),
            )
        self._buckets[client.name] = found
        if len(self._buckets) > self._settings.max_clients:
            self._buckets.popitem(last=False)
        return found

    def take_request(self, client: HttpClient) -> None:
        """Count one request. Raises `TooManyRequests`."""
        if not self._of(client)[0].take(1, self._clock_s()):
            raise TooManyRequests("more requests than this client may make")

    async def take_bytes(self, client: HttpClient, count: int) -> None:
        """Wait until a client may bring so many more bytes."""
        wait_s = self._of(client)[1].wait_s(count, self._clock_s())
        if wait_s:
            await asyncio.sleep(wait_s)

    def begin_read(self, client: HttpClient) -> Callable[[], None]:
        """Count one read until what is given back is called, once or more. Raises `TooManyRequests`."""
        settings, name = self._settings, client.name
        if self._reads.total() >= settings.max_reads or self._reads[name] >= settings.max_reads_per_client:
            raise TooManyRequests("more reads at once than there is room for")
        self._reads[name] += 1
        is_open = True

        def end() -> None:
            nonlocal is_open
            if is_open:
                is_open = False
                self._reads[name] -= 1
                if not self._reads[name]:
                    del self._reads[name]

        return end

    def require_stream(self, client: HttpClient) -> None:
        """Raise `TooManyRequests` unless there is room for a further stream of events."""
        settings = self._settings
        if self._streams.total() >= settings.max_event_streams:
            raise TooManyRequests("no room for a further stream of events")
        if self._streams[client.name] >= settings.max_event_streams_per_client:
            raise TooManyRequests("more streams of events than this client may have")

    @contextmanager
    def streaming(self, client: HttpClient) -> Iterator[None]:
        """One stream of events, while the context lasts. Raises `TooManyRequests`."""
        self.require_stream(client)
        self._streams[client.name] += 1
        try:
            yield
        finally:
            self._streams[client.name] -= 1
            if not self._streams[client.name]:
                del self._streams[client.name]
