"""What is wrong with a request, as problem details (RFC 9457) with our codes."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import ClassVar, Final

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


class RequestError(ConnectorError):
    """A request that is not answered as it wishes."""

    code: ClassVar[str] = "dag.http"
    status: ClassVar[int] = 400


class RequestMalformed(RequestError):
    """A header, a parameter or a body that is not what it has to be."""

    code: ClassVar[str] = "dag.http.malformed"


class Unauthenticated(RequestError):
    """Nothing was shown that says who asks, or nothing that is known."""

    code: ClassVar[str] = "dag.http.unauthenticated"
    status: ClassVar[int] = 401


class Forbidden(RequestError):
    """Who asks may not do this."""

    code: ClassVar[str] = "dag.http.forbidden"
    status: ClassVar[int] = 403


class NotHere(RequestError):
    """What is asked for is not here."""

    code: ClassVar[str] = "dag.http.not_here"
    status: ClassVar[int] = 404


class NotAcceptable(RequestError):
    """Only representations are accepted that are not made here."""

    code: ClassVar[str] = "dag.http.not_acceptable"
    status: ClassVar[int] = 406


class NotCached(RequestError):
    """A block is not here, and the client wants it only if it is (`only-if-cached`)."""

    code: ClassVar[str] = "dag.http.not_cached"
    status: ClassVar[int] = 412


class BodyTooSlow(RequestError):
    """A body that does not come."""

    code: ClassVar[str] = "dag.http.slow"
    status: ClassVar[int] = 408


class BodyTooLarge(RequestError):
    """A body over the bound of its kind."""

    code: ClassVar[str] = "dag.http.too_large"
    status: ClassVar[int] = 413


class RangeUnsatisfiable(RequestError):
    """A range that begins behind the end."""

    code: ClassVar[str] = "dag.http.range"
    status: ClassVar[int] = 416


class TooManyRequests(RequestError):
    """More than the budget of a client."""

    code: ClassVar[str] = "dag.http.budget"
    status: ClassVar[int] = 429


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
