"""Error responses, as problem details (RFC 9457) with stable codes."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, ClassVar, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from culm_connectors.errors import ConnectorError
from culm_models.dag.errors import (
    Blocked,
    BlockMissing,
    BlockTooLarge,
    DagSpoolFull,
    EntityBytesMalformed,
    NodeMissing,
    PathUnknown,
    ShardSizeChanged,
    SpaceFull,
    SpaceNotAllowed,
    WaitingFull,
)
from culm_models.errors import CulmError

PROBLEM_TYPE: Final = "application/problem+json"
_STATUS_OF_CODE: Final[dict[str, int]] = {
    Blocked.code: 403,
    BlockMissing.code: 404,
    BlockTooLarge.code: 413,
    EntityBytesMalformed.code: 400,
    NodeMissing.code: 404,
    PathUnknown.code: 404,
    ShardSizeChanged.code: 409,
    SpaceFull.code: 507,
    SpaceNotAllowed.code: 403,
    DagSpoolFull.code: 507,
    WaitingFull.code: 503,
}
_RULE_BROKEN: Final = 422
_RETRY_S: Final = "5"


class HttpRequestError(ConnectorError, code="dag.http"):
    """A request that is refused; each subclass has its own code and status."""

    status: ClassVar[int] = 400

    def __init_subclass__(cls, *, status: int = 400, **further: Any) -> None:
        super().__init_subclass__(**further)
        cls.status = status


class RequestMalformed(HttpRequestError, code="dag.http.malformed"):
    """A malformed header, parameter or body."""


class Unauthenticated(HttpRequestError, code="dag.http.unauthenticated", status=401):
    """No credentials were sent, or they are not known here."""


class Forbidden(HttpRequestError, code="dag.http.forbidden", status=403):
    """The client does not have this right."""


class NotHere(HttpRequestError, code="dag.http.not_here", status=404):
    """The requested resource is not here."""


class NotAcceptable(HttpRequestError, code="dag.http.not_acceptable", status=406):
    """The client accepts only representations that the door does not offer."""


class NotCached(HttpRequestError, code="dag.http.not_cached", status=412):
    """A block is not here, and the client accepts only cached blocks (`only-if-cached`)."""


class BodyTooSlow(HttpRequestError, code="dag.http.slow", status=408):
    """A body that does not arrive in time."""


class BodyTooLarge(HttpRequestError, code="dag.http.too_large", status=413):
    """A body over the limit of its kind."""


class RangeUnsatisfiable(HttpRequestError, code="dag.http.range", status=416):
    """A range that begins after the end."""


class TooManyRequests(HttpRequestError, code="dag.http.budget", status=429):
    """A client that is over its budget."""


class ShuttingDown(HttpRequestError, code="dag.http.shutting_down", status=503):
    """A request over a new connection to a process that stops; another one, or its successor, answers it."""


def status_of(code: str) -> int:
    """Return the HTTP status of a code with which a service or a model has refused something."""
    return _STATUS_OF_CODE.get(code, _RULE_BROKEN)


def problem(
    status: int, code: str, detail: str, headers: Mapping[str, str] | None = None, **more: object
) -> Response:
    """Return an error response; `more` are further members of its problem details."""
    all_headers = dict(headers or {})
    if status == 401:
        all_headers["WWW-Authenticate"] = "Bearer"
    if status in (429, 503):
        all_headers["Retry-After"] = _RETRY_S
    if status == 408:
        # The rest of the body is not waited for. (The rest of a body that is too large is read and dropped
        # for a bounded time: closing the connection earlier would lose the answer.)
        all_headers["Connection"] = "close"
    title = HTTPStatus(status).phrase
    body = {"type": f"urn:culm:{code}", "title": title, "status": status, "detail": detail, "code": code}
    return JSONResponse({**body, **more}, status, all_headers, media_type=PROBLEM_TYPE)


async def answer_error(request: Request, error: Exception) -> Response:
    """Return the response to an error that a handler has raised."""
    if isinstance(error, HttpRequestError):
        return problem(error.status, error.code, str(error))
    if isinstance(error, HTTPException):
        code = NotHere.code if error.status_code == 404 else RequestMalformed.code
        return problem(error.status_code, code, error.detail, error.headers)
    if isinstance(error, CulmError):
        return problem(status_of(error.code), error.code, str(error))
    raise error
