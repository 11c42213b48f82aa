"""What is wrong with a request, as problem details (RFC 9457) with our codes."""

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
    EntityBytesMalformed,
    NodeMissing,
    PathUnknown,
    ShardSizeChanged,
    SpaceFull,
    SpaceNotAllowed,
    SpoolFull,
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
    SpoolFull.code: 507,
    WaitingFull.code: 503,
}
_RULE_BROKEN: Final = 422
_RETRY_S: Final = "5"


class RequestError(ConnectorError, code="dag.http"):
    """A request that is not answered as it wishes; a class below it names its code and status."""

    status: ClassVar[int] = 400

    def __init_subclass__(cls, *, status: int = 400, **further: Any) -> None:
        super().__init_subclass__(**further)
        cls.status = status


class RequestMalformed(RequestError, code="dag.http.malformed"):
    """A header, a parameter or a body that is not what it has to be."""


class Unauthenticated(RequestError, code="dag.http.unauthenticated", status=401):
    """Nothing was shown that says who asks, or nothing that is known."""


class Forbidden(RequestError, code="dag.http.forbidden", status=403):
    """Who asks may not do this."""


class NotHere(RequestError, code="dag.http.not_here", status=404):
    """What is asked for is not here."""


class NotAcceptable(RequestError, code="dag.http.not_acceptable", status=406):
    """Only representations are accepted that are not made here."""


class NotCached(RequestError, code="dag.http.not_cached", status=412):
    """A block is not here, and the client wants it only if it is (`only-if-cached`)."""


class BodyTooSlow(RequestError, code="dag.http.slow", status=408):
    """A body that does not come."""


class BodyTooLarge(RequestError, code="dag.http.too_large", status=413):
    """A body over the bound of its kind."""


class RangeUnsatisfiable(RequestError, code="dag.http.range", status=416):
    """A range that begins behind the end."""


class TooManyRequests(RequestError, code="dag.http.budget", status=429):
    """More than the budget of a client."""


def status_of(code: str) -> int:
    """The HTTP status of a code that a room or a model has refused something with."""
    return _STATUS_OF_CODE.get(code, _RULE_BROKEN)


def problem(
    status: int, code: str, detail: str, headers: Mapping[str, str] | None = None, **more: object
) -> Response:
    """A response that says what is wrong; `more` are further members."""
    given = dict(headers or {})
    if status == 401:
        given["WWW-Authenticate"] = "Bearer"
    if status in (429, 503):
        given["Retry-After"] = _RETRY_S
    if status == 408:
        # What is left of the body is not waited for. (Of one that is too large it is dropped as it comes, for
        # a bounded time: a connection that is closed before would lose the answer.)
        given["Connection"] = "close"
    title = HTTPStatus(status).phrase
    body = {"type": f"urn:culm:{code}", "title": title, "status": status, "detail": detail, "code": code}
    return JSONResponse({**body, **more}, status, given, media_type=PROBLEM_TYPE)


async def answer_error(request: Request, error: Exception) -> Response:
    """The response to an error that a handler has raised."""
    if isinstance(error, RequestError):
        return problem(error.status, error.code, str(error))
    if isinstance(error, HTTPException):
        code = NotHere.code if error.status_code == 404 else RequestMalformed.code
        return problem(error.status_code, code, error.detail, error.headers)
    if isinstance(error, CulmError):
        return problem(status_of(error.code), error.code, str(error))
    raise error
