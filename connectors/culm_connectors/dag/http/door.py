"""Shared state of all handlers of the door: the service, the rules, the budgets, and published states."""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from typing import Final
from urllib.parse import unquote_to_bytes

from pydantic import BaseModel
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from culm_connectors.dag.http.access import DoorAccess
from culm_connectors.dag.http.client_budgets import ClientBudgets, HttpClient, client_of
from culm_connectors.dag.http.event_sources import EventSources
from culm_connectors.dag.http.problems import BodyTooLarge, BodyTooSlow, RequestMalformed
from culm_connectors.dag.http.settings import DagHttpSettings
from culm_connectors.dag.service import DagService
from culm_connectors.dag.store.outcomes import PublishedDag
from culm_connectors.edge.fair_turns import work_for
from culm_models.dag.blocks.cid import Cid, cid_from_text
from culm_models.dag.errors import CidMalformed, UcanKey
from culm_models.dag.ucan.did_key import did_from_text

_KEPT_ORDERS: Final = 64
_HEX_KEY: Final = re.compile("[0-9a-fA-F]{64}")


class Door:
    """One HTTP door of a service."""

    def __init__(
        self, service: DagService, settings: DagHttpSettings, access: DoorAccess | None = None
    ) -> None:
        self.service = service
        self.settings = settings
        self.access = access or DoorAccess(service, settings)
        self.budgets = ClientBudgets(settings)
        self.events = EventSources(service.watches, self.published, settings)
        self._orders: OrderedDict[bytes, tuple[int, asyncio.Task[PublishedDag]]] = OrderedDict()

    async def enter(self, request: Request) -> HttpClient:
        """Wait until a client may make a further request; returns the client. Raises `TooManyRequests`."""
        client = client_of(request, self.access.has_token)
        await self.budgets.take_request(client)
        # Every request has a task of its own.
        work_for(client.host, client.name)
        return client

    async def begin_read(self, request: Request, client: HttpClient) -> Callable[[], None]:
        """Wait for a place to read; returns the function that leaves it, to be called once or more.

        Raises `TooManyRequests` if too many requests of the client wait.
        """
        leave = await self.budgets.reads.enter(client.name)
        if await request.is_disconnected():
            leave()
            raise RequestMalformed("the client has gone")
        return leave

    async def body(self, request: Request, client: HttpClient, limit: int) -> bytes:
        """Read a body of at most `limit` bytes; a bounded number of bodies is read at once.

        No more than that is in memory, whatever a header says of the length. Raises `HttpRequestError`.
        """
        async with self.budgets.bodies.take(client.name):
            return await self._read_body(request, client, limit)

    async def _read_body(self, request: Request, client: HttpClient, limit: int) -> bytes:
        if request.headers.get("content-encoding", "identity") != "identity":
            raise RequestMalformed("bodies are taken as they are: no Content-Encoding")
        announced = request.headers.get("content-length", "")
        if announced.isdigit() and int(announced[:20]) > limit:
            raise BodyTooLarge(f"a body over {limit} bytes")
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self.settings.body_grace_s
        pieces: list[bytes] = []
        size = 0
        stream: AsyncIterator[bytes] = request.stream()
        try:
            while True:
                async with asyncio.timeout_at(deadline_s):
                    piece = await anext(stream, None)
                if piece is None:
                    break
                size += len(piece)
                if size > limit:
                    raise BodyTooLarge(f"a body over {limit} bytes")
                pieces.append(piece)
                before_s = loop.time()
                await self.budgets.take_bytes(client, len(piece))
                # Time in which we did not read is not the client's.
                deadline_s += len(piece) / self.settings.body_bytes_per_second + loop.time() - before_s
        except TimeoutError:
            raise BodyTooSlow("the body does not come") from None
        except ClientDisconnect:
            raise RequestMalformed("the body was cut off") from None
        return b"".join(pieces)

    async def published(self, id: bytes) -> PublishedDag:
        """Return the published state of an id; it is computed again only if it may have changed.

        Concurrent requests share one computation.
        """
        version = self.service.watches.version(id)
        known = self._orders.pop(id, None)
        if known is None or known[0] != version or (known[1].done() and known[1].exception() is not None):
            known = (version, asyncio.create_task(self.service.published(id)))
        self._orders[id] = known
        if len(self._orders) > _KEPT_ORDERS:
            self._orders.popitem(last=False)
        # A cancelled request must not cancel a computation that others wait for.
        return await asyncio.shield(known[1])


def path_text(text: str) -> str:
    """Decode a part of a path as it was sent. Raises `RequestMalformed` if it is not UTF-8."""
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        raise RequestMalformed(f"{text[:100]!r} in the path is not UTF-8") from None


def path_cid(request: Request) -> Cid:
    """Return the CID in the path. Raises `RequestMalformed`."""
    return parse_cid(path_text(request.path_params["cid"]))


def path_space(request: Request) -> bytes:
    """Return the space in the path. Raises `RequestMalformed`."""
    return parse_space(path_text(request.path_params["space"]))


def parse_cid(text: str) -> Cid:
    """Parse a CID of a request. Raises `RequestMalformed`."""
    try:
        return cid_from_text(text)
    except CidMalformed as error:
        raise RequestMalformed(f"{text[:100]!r} is no CID: {error}") from None


def parse_space(text: str) -> bytes:
    """Parse a space or an id: 64 hex digits, or a did:key. Raises `RequestMalformed`."""
    if _HEX_KEY.fullmatch(text):
        return bytes.fromhex(text)
    try:
        return did_from_text(text)[2:]
    except UcanKey:
        raise RequestMalformed(
            f"{text[:100]!r} is no public key: 64 hex digits, or a did:key of Ed25519"
        ) from None


def json_answer(answer: BaseModel, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return an answer as JSON, which no cache keeps."""
    return JSONResponse(answer.model_dump(), status, {"Cache-Control": "no-store", **(headers or {})})
