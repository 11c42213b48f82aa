"""Serves the console's page with generated data, as the console does: same paths, policy and access."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from culm_infra.console.headers import CONTENT_SECURITY_POLICY
from tests.house.tree import ROOT
from tests.support.console_page.documents import Deployment
from tests.support.console_page.tables import GeneratedTable, generated_tables

ASSETS: Final = ROOT / "infra" / "culm_infra" / "console" / "assets"
_COOKIE: Final = "culm-console"
_PATIENCE_S: Final = 30.0


@dataclass
class GeneratedConsole:
    """What is served; tests change it while it is served."""

    deployment: Deployment = field(default_factory=Deployment)
    tables: dict[str, GeneratedTable] = field(default_factory=generated_tables)
    token: str | None = None
    interval_s: float = 0.5
    """Pause between two events; the console sends one every two seconds."""
    events_refused: bool = False
    tables_away: tuple[str, str] | None = None
    """Error and hint of the answer 503 of the tables."""
    detail_waits: threading.Event = field(default_factory=threading.Event)
    """Details are answered while it is set."""
    sent: int = 0
    """Events that were sent."""
    requests: list[str] = field(default_factory=list)
    address: str = ""

    def __post_init__(self) -> None:
        """Let details be answered."""
        self.detail_waits.set()

    def app(self) -> Starlette:
        """Return the application."""
        routes = [
            Route("/", self._page),
            Mount("/assets", StaticFiles(directory=ASSETS)),
            Route("/api/overview", self._overview),
            Route("/api/events", self._events),
            Route("/api/tables", self._index),
            Route("/api/tables/{name}", self._table),
            Route("/api/tables/{name}/{key:path}", self._detail),
        ]
        return Starlette(routes=routes)

    def _is_refused(self, request: Request) -> bool:
        self.requests.append(request.url.path)
        return self.token is not None and request.cookies.get(_COOKIE) != self.token

    async def _page(self, request: Request) -> Response:
        headers = {"Content-Security-Policy": CONTENT_SECURITY_POLICY}
        if self.token is not None and request.query_params.get("token") == self.token:
            answer = RedirectResponse("/", HTTPStatus.SEE_OTHER)
            answer.set_cookie(_COOKIE, self.token, httponly=True, samesite="strict")
            return answer
        status = HTTPStatus.UNAUTHORIZED if self._is_refused(request) else HTTPStatus.OK
        return FileResponse(ASSETS / "index.html", status, headers)

    async def _overview(self, request: Request) -> Response:
        if self._is_refused(request):
            return _problem(HTTPStatus.UNAUTHORIZED, "this console needs a token", "open its address")
        if self.events_refused:
            return _problem(HTTPStatus.SERVICE_UNAVAILABLE, "the console is stopping", "start it again")
        return JSONResponse(self.deployment.document())

    async def _events(self, request: Request) -> Response:
        if self._is_refused(request):
            return _problem(HTTPStatus.UNAUTHORIZED, "this console needs a token", "open its address")
        if self.events_refused:
            return _problem(HTTPStatus.SERVICE_UNAVAILABLE, "the console is stopping", "start it again")

        async def events() -> AsyncIterator[bytes]:
            while not self.events_refused:
                self.sent += 1
                yield b"event: overview\ndata: " + json.dumps(self.deployment.document()).encode() + b"\n\n"
                await asyncio.sleep(self.interval_s)

        return StreamingResponse(events(), media_type="text/event-stream")

    async def _index(self, request: Request) -> Response:
        if self._is_refused(request):
            return _problem(HTTPStatus.UNAUTHORIZED, "this console needs a token", "open its address")
        return JSONResponse([table.spec() for table in self.tables.values()])

    async def _table(self, request: Request) -> Response:
        if self._is_refused(request):
            return _problem(HTTPStatus.UNAUTHORIZED, "this console needs a token", "open its address")
        if self.tables_away is not None:
            return _problem(HTTPStatus.SERVICE_UNAVAILABLE, *self.tables_away)
        query: Any = request.query_params
        table = self.tables[request.path_params["name"]]
        return JSONResponse(table.page(query.get("search", ""), query.get("cursor", ""), int(query["limit"])))

    async def _detail(self, request: Request) -> Response:
        if self._is_refused(request):
            return _problem(HTTPStatus.UNAUTHORIZED, "this console needs a token", "open its address")
        await asyncio.to_thread(self.detail_waits.wait, _PATIENCE_S)
        detail = self.tables[request.path_params["name"]].detail(request.path_params["key"])
        if detail is None:
            return _problem(
                HTTPStatus.NOT_FOUND, "there is no such row", "look whether it was compacted away"
            )
        return JSONResponse(detail)


def _problem(status: HTTPStatus, error: str, hint: str) -> Response:
    return JSONResponse({"error": error, "hint": hint}, status)


@contextlib.contextmanager
def served(console: GeneratedConsole) -> Iterator[GeneratedConsole]:
    """Serve on a free port of the loopback address while the context is open."""
    config = uvicorn.Config(console.app(), host="127.0.0.1", port=0, log_level="error", lifespan="off")
    config.timeout_graceful_shutdown = 1
    server = uvicorn.Server(config)
    opened = config.bind_socket()
    console.address = f"http://127.0.0.1:{opened.getsockname()[1]}"
    thread = threading.Thread(target=server.run, args=([opened],))
    thread.start()
    try:
        yield console
    finally:
        console.events_refused = True
        console.detail_waits.set()
        server.should_exit = True
        thread.join()
        opened.close()


def main(folder: Path = ASSETS) -> None:
    """Serve until interrupted, to look at the page: `python -m tests.support.console_page.server`."""
    assert folder.is_dir()
    with served(GeneratedConsole()) as console, contextlib.suppress(KeyboardInterrupt):
        print(console.address)
        threading.Event().wait()


if __name__ == "__main__":
    main()
