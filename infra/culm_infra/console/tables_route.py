"""Routes of the tables: their list, pages of rows, and the details of one row."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from http import HTTPStatus
from typing import Any, Final, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from culm_infra.console.problems import problem
from culm_infra.console.tables import BadRequest, ConsoleTable, NotFound
from culm_infra.console.tables.scan import CANCELLED
from culm_models.errors import CulmError

logger = logging.getLogger(__name__)

MAX_ROWS: Final = 200
_DEFAULT_ROWS: Final = 50
_MAX_TEXT: Final = 8_192
_THREADS: Final = 4
_MAX_WAITING: Final = 32

Result = TypeVar("Result")


class TableRoutes:
    """Answers requests for tables in a few threads; if too many requests wait, further ones get 503."""

    def __init__(self, tables: Mapping[str, ConsoleTable]) -> None:
        self._tables = tables
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="console-table")
        self._waiting = 0

    def close(self) -> None:
        """Start no further work."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def index(self, request: Request) -> Response:
        """Answer `GET /api/tables`."""
        return JSONResponse([asdict(table.spec) for table in self._tables.values()])

    async def page(self, request: Request) -> Response:
        """Answer `GET /api/tables/{name}`."""
        query = request.query_params
        limit = _row_limit(query.get("limit", str(_DEFAULT_ROWS)))
        search, cursor = query.get("search", "").strip(), query.get("cursor", "")
        if limit is None:
            return problem(HTTPStatus.BAD_REQUEST, f"limit must be a whole number from 1 to {MAX_ROWS}")
        if len(search) > _MAX_TEXT or len(cursor) > _MAX_TEXT:
            return problem(
                HTTPStatus.BAD_REQUEST, f"search and cursor must have at most {_MAX_TEXT} characters"
            )
        return await self._answer(request, lambda table: asdict(table.page(search, cursor, limit)))

    async def detail(self, request: Request) -> Response:
        """Answer `GET /api/tables/{name}/{key}`."""
        key = request.path_params["key"]
        if len(key) > _MAX_TEXT:
            return problem(HTTPStatus.BAD_REQUEST, f"a key must have at most {_MAX_TEXT} characters")
        return await self._answer(request, lambda table: asdict(table.detail(key)))

    async def _answer(self, request: Request, work: Callable[[ConsoleTable], Any]) -> Response:
        name = request.path_params["name"]
        table = self._tables.get(name)
        if table is None:
            known = ", ".join(self._tables)
            return problem(HTTPStatus.NOT_FOUND, f"there is no table {name[:80]!r}", f"tables: {known}")
        if self._waiting >= _MAX_WAITING:
            return problem(
                HTTPStatus.SERVICE_UNAVAILABLE, "too many requests for tables wait", "try again in a moment"
            )
        self._waiting += 1
        cancelled = threading.Event()
        watching = asyncio.create_task(_set_when_gone(request, cancelled))
        try:
            document = await asyncio.get_running_loop().run_in_executor(
                self._threads, _work_until, cancelled, work, table
            )
        except BadRequest as error:
            return problem(HTTPStatus.BAD_REQUEST, str(error))
        except NotFound as error:
            return problem(HTTPStatus.NOT_FOUND, str(error))
        except CulmError as error:
            return problem(HTTPStatus.SERVICE_UNAVAILABLE, str(error), getattr(error, "hint", None))
        except Exception:
            logger.exception("the table %s failed", name)
            return problem(
                HTTPStatus.INTERNAL_SERVER_ERROR,
                f"the table {name} failed",
                "the console's log has the cause",
            )
        finally:
            watching.cancel()
            self._waiting -= 1
        return JSONResponse(document)


def _row_limit(text: str) -> int | None:
    """Return the limit that a request gives, or None if it is not a number of rows that a page may have."""
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(MAX_ROWS))):
        return None
    limit = int(text)
    return limit if 1 <= limit <= MAX_ROWS else None


def _work_until(
    cancelled: threading.Event, work: Callable[[ConsoleTable], Result], table: ConsoleTable
) -> Result:
    """Do the work of a request; its scans end when the event is set."""
    token = CANCELLED.set(cancelled)
    try:
        return work(table)
    finally:
        CANCELLED.reset(token)


async def _set_when_gone(request: Request, cancelled: threading.Event) -> None:
    """Set the event when the client closes the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        continue
    cancelled.set()
