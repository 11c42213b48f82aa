"""Access to the console by a token: once in the address, or with every request of a program.

A browser opens the address with `?token=…`, gets a cookie, and is sent to the address without the token. A
program sends `Authorization: Bearer TOKEN`. The page and its files, which hold no data, are open: without the
token the page asks for it.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from culm_infra.console.problems import problem

logger = logging.getLogger(__name__)

_COOKIE_TEXT: Final = b"culm console"
_LOG_INTERVAL_S: Final = 10.0
_OPEN: Final = "/assets/"
_MISSING: Final = "this console needs a token"
_WRONG: Final = "the token is wrong"
HINT: Final = (
    "open the address that `culm console` printed at its start, with its ?token=…; a program sends the "
    "header `Authorization: Bearer TOKEN`"
)


def new_token() -> str:
    """Return a random token."""
    return secrets.token_urlsafe(32)


class TokenAccess:
    """Lets requests with the token pass, and answers all others with 401.

    `page` returns the page with a status, for browsers that have no token yet. `port` distinguishes the
    cookies of several consoles on one host; `is_secure` restricts the cookie to TLS.
    """

    def __init__(
        self,
        app: ASGIApp,
        token: str,
        *,
        page: Callable[[Request, HTTPStatus], Response],
        port: int,
        is_secure: bool,
    ) -> None:
        self._app = app
        self._page = page
        self._token = token.encode()
        # The cookie does not contain the token, which may be used elsewhere.
        self._cookie = hmac.new(self._token, _COOKIE_TEXT, hashlib.sha256).hexdigest()
        self._cookie_name = f"culm-console-{port}"
        self._is_secure = is_secure
        self._logged_s = -_LOG_INTERVAL_S

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it."""
        if scope["type"] != "http":
            return
        request = Request(scope)
        answer = self._answer(request)
        await (self._app if answer is None else answer)(scope, receive, send)

    def _answer(self, request: Request) -> Response | None:
        """Return None if the request may pass."""
        if request.url.path.startswith(_OPEN):
            return None
        in_address = request.query_params.get("token")
        if in_address is not None:
            if not self._is_token(in_address):
                return self._refusal(request, _WRONG)
            return self._with_cookie(request) if request.url.path == "/" else None
        scheme, _, in_header = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return None if self._is_token(in_header.strip()) else self._refusal(request, _WRONG)
        cookie = request.cookies.get(self._cookie_name)
        if cookie is None:
            return self._refusal(request, _MISSING)
        is_ours = hmac.compare_digest(cookie.encode(errors="replace"), self._cookie.encode())
        return None if is_ours else self._refusal(request, _WRONG)

    def _is_token(self, text: str) -> bool:
        return hmac.compare_digest(text.encode(errors="replace"), self._token)

    def _with_cookie(self, request: Request) -> Response:
        """Return the redirection to the address without the token, which sets the cookie."""
        answer = RedirectResponse("/", status_code=HTTPStatus.SEE_OTHER)
        answer.set_cookie(
            self._cookie_name,
            self._cookie,
            path="/",
            httponly=True,
            secure=self._is_secure,
            samesite="strict",
        )
        return answer

    def _refusal(self, request: Request, error: str) -> Response:
        now_s = time.monotonic()
        if error == _WRONG and now_s - self._logged_s >= _LOG_INTERVAL_S:
            self._logged_s = now_s
            client = "" if request.client is None else request.client.host
            logger.warning("a request with a wrong token was refused", extra={"address": client})
        headers = {"WWW-Authenticate": "Bearer"}
        if request.url.path.startswith("/api/"):
            return problem(HTTPStatus.UNAUTHORIZED, error, HINT, headers=headers)
        if request.url.path == "/" and request.method in ("GET", "HEAD"):
            return self._page(request, HTTPStatus.UNAUTHORIZED)
        text = f"{error[:1].upper()}{error[1:]}: {HINT}.\n"
        return PlainTextResponse(text, HTTPStatus.UNAUTHORIZED, headers=headers)
