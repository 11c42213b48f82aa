"""Requests to the HTTP door of an edge, by the standard library alone: what a small client needs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from typing import Any, Final

from culm_infra.demo.kit.processes import DemoError

_TIMEOUT_S: Final = 60.0
_READ_BYTES: Final = 1_048_576
_REFUSED: Final = 400


@dataclass(frozen=True, slots=True)
class DoorAnswer:
    """What the door has answered; names of headers are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """The body, read."""
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class DoorClient:
    """One client of one door, whose token says who it is."""

    host: str
    port: int
    token: str

    async def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        headers: dict[str, str] | None = None,
        on_body: Callable[[bytes], object] | None = None,
    ) -> DoorAnswer:
        """One request; with `on_body`, its body is given away in pieces. Raises DemoError."""
        given = {"Authorization": f"Bearer {self.token}", **(headers or {})}
        return await asyncio.to_thread(self._ask, method, path, body, given, on_body)

    async def get(self, path: str, on_body: Callable[[bytes], object] | None = None) -> DoorAnswer:
        """What is there. Raises DemoError where it is not."""
        answer = await self.ask("GET", path, on_body=on_body)
        if answer.status >= _REFUSED:
            raise DemoError(f"GET {path}: {answer.status} {answer.body[:200].decode(errors='replace')}")
        return answer

    def _ask(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: dict[str, str],
        on_body: Callable[[bytes], object] | None,
    ) -> DoorAnswer:
        connection = HTTPConnection(self.host, self.port, timeout=_TIMEOUT_S)
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            if on_body is None or response.status >= _REFUSED:
                return DoorAnswer(response.status, found, response.read())
            while piece := response.read(_READ_BYTES):
                on_body(piece)
            return DoorAnswer(response.status, found, b"")
        except (OSError, HTTPException) as error:
            raise DemoError(f"{method} {path} at the HTTP door: {error!r}") from error
        finally:
            connection.close()
