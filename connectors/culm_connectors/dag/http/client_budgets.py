"""Who is behind a request, and how much each may use of this process."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from starlette.requests import Request

from culm_connectors.dag.http.places import Places
from culm_connectors.dag.http.problems import TooManyRequests
from culm_connectors.dag.http.settings import DagHttpSettings
from culm_connectors.rate_limit import TokenBuckets
from culm_connectors.transport.principal import neighbourhood

_BEARER = "bearer "


@dataclass(frozen=True, slots=True)
class HttpClient:
    """Who asks: by a token, or else by an address."""

    name: str
    token: str | None
    host: str = ""
    """Where it comes from."""

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
        return HttpClient(f"token:{hashlib.sha256(token.encode()).hexdigest()}", token, host)
    return HttpClient(f"address:{neighbourhood(host)}", token, host)


class ClientBudgets:
    """Requests, reads, bodies with their bytes, and streams of events, by client."""

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
        """Wait until a client may make one more request. Raises `TooManyRequests` where that is too long."""
        bucket = self._requests.of(client.name)
        wait_s = bucket.wait_s(1, self._clock_s())
        if wait_s > self._settings.request_wait_s:
            bucket.put_back(1)
            raise TooManyRequests("more requests than this client may make")
        if wait_s:
            await asyncio.sleep(wait_s)

    async def take_bytes(self, client: HttpClient, count: int) -> None:
        """Wait until a client may bring so many more bytes."""
        wait_s = self._bytes.of(client.name).wait_s(count, self._clock_s())
        if wait_s:
            await asyncio.sleep(wait_s)

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
