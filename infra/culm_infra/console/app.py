"""The console as an ASGI application: the page, the overview, and the tables. It has no route that writes."""

from __future__ import annotations

from http import HTTPStatus

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from culm_infra.console.access import TokenAccess
from culm_infra.console.assets_route import Assets
from culm_infra.console.events import OverviewEvents
from culm_infra.console.headers import SecurityHeaders
from culm_infra.console.overview.snapshots import OverviewSnapshots
from culm_infra.console.problems import problem
from culm_infra.console.tables_route import TableRoutes


def console_app(
    snapshots: OverviewSnapshots,
    tables: TableRoutes,
    token: str,
    *,
    port: int,
    is_secure: bool,
    assets: Assets | None = None,
) -> ASGIApp:
    """Return the application. `is_secure` means that browsers use TLS, here or at a proxy."""
    page = assets or Assets()
    events = OverviewEvents(snapshots)

    async def overview(request: Request) -> Response:
        latest = snapshots.latest if snapshots.latest.number else await snapshots.after(0)
        if latest is None:
            return problem(HTTPStatus.SERVICE_UNAVAILABLE, "the console is stopping")
        return Response(latest.document, media_type="application/json")

    routes = [
        Route("/", page.page),
        Route("/assets/{path:path}", page.file),
        Route("/api/overview", overview),
        Route("/api/events", events.stream),
        Route("/api/tables", tables.index),
        Route("/api/tables/{name}", tables.page),
        Route("/api/tables/{name}/{key:path}", tables.detail),
    ]
    app = Starlette(
        routes=routes, exception_handlers={HTTPException: _on_http_error, Exception: _on_unexpected_error}
    )
    access = TokenAccess(app, token, page=page.refused, port=port, is_secure=is_secure)
    return SecurityHeaders(access, is_secure=is_secure)


async def _on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException), "registered for this class alone"
    texts = {
        HTTPStatus.NOT_FOUND: f"there is nothing at {request.url.path[:200]!r}",
        HTTPStatus.METHOD_NOT_ALLOWED: "the console only reads: use GET",
    }
    text = texts.get(HTTPStatus(error.status_code), error.detail)
    return problem(error.status_code, text, headers=error.headers)


async def _on_unexpected_error(request: Request, error: Exception) -> Response:
    return problem(
        HTTPStatus.INTERNAL_SERVER_ERROR, "the console failed at this request", "its log has the cause"
    )
