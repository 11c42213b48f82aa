"""The door as an ASGI application."""

from __future__ import annotations

from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from culm_connectors.dag.http.access import DoorAccess
from culm_connectors.dag.http.answers.shards import RANGES_HEADER
from culm_connectors.dag.http.door import Door
from culm_connectors.dag.http.problems import answer_error
from culm_connectors.dag.http.routes import OPERATIONS, HttpOperation, openapi_document
from culm_connectors.dag.http.settings import DagHttpSettings
from culm_connectors.dag.service import DagService
from culm_models.errors import CulmError

_ASKED: Final = (
    "Authorization",
    "Cache-Control",
    "Content-Range",
    "Content-Type",
    "If-None-Match",
    "Last-Event-ID",
    "Range",
)
_SHOWN: Final = (
    "Accept-Ranges",
    "Content-Disposition",
    "Content-Location",
    "Content-Range",
    "Culm-Size",
    "ETag",
    RANGES_HEADER,
    "Retry-After",
    "X-Ipfs-Path",
    "X-Ipfs-Roots",
)


class RawPaths:
    """Routes requests by the path as it was sent; handlers decode its parts (`path_text`).

    In a decoded path a newline ends the match of a route's pattern, encoded slashes become separators, and
    bytes that are not UTF-8 are replaced: the answer would be for another path than the requested one.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] == "http":
            scope = {**scope, "path": scope["raw_path"].decode("latin-1")}
        await self._app(scope, receive, send)


def dag_app(service: DagService, settings: DagHttpSettings, access: DoorAccess | None = None) -> Starlette:
    """Return the application of a service's door. Only pages of the origins in the settings may call it."""
    door = Door(service, settings, access)
    document = openapi_document()

    async def get_document(request: Request) -> Response:
        await door.enter(request)
        return JSONResponse(document)

    cors = Middleware(
        CORSMiddleware,
        allow_origins=list(settings.origins),
        allow_methods=["GET", "HEAD", "POST", "PUT"],
        allow_headers=list(_ASKED),
        expose_headers=list(_SHOWN),
    )
    app = Starlette(
        routes=[*(_route(door, operation) for operation in OPERATIONS), Route("/openapi.json", get_document)],
        middleware=[Middleware(RawPaths), *([cors] if settings.origins else [])],
        exception_handlers={HTTPException: answer_error, CulmError: answer_error},
    )
    app.state.events = door.events
    return app


def _route(door: Door, operation: HttpOperation) -> Route:
    async def handle(request: Request) -> Response:
        return await operation.handler(door, request, await door.enter(request))

    return Route(
        operation.route or operation.path, handle, methods=[operation.method], name=operation.handler.__name__
    )
