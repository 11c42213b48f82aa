"""Answers of the API to requests that fail: a status, what is wrong, and a remedy."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import JSONResponse


def problem(
    status: int, error: str, hint: str | None = None, *, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """Return an answer with `error` and `hint`, both sentences for people."""
    return JSONResponse({"error": error, "hint": hint}, status, headers=headers)
