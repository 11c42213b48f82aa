"""Shared by answers to reads: the blocks that a client may read, headers, ranges, bodies in pieces."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, Final, TypeVar
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from culm_connectors.dag.http.door import Door
from culm_connectors.dag.http.problems import RangeUnsatisfiable
from culm_connectors.edge.fair_turns import TURN_S
from culm_models.dag.blocks.cid import Cid
from culm_models.dag.walk.reach import FindBlock

_BATCH_BYTES: Final = 262_144
"""Bytes of an answer that are read at once.

For a client that reads nothing, little more than twice as many are in memory.
"""
# The header of a deeper path would be larger than clients and proxies accept.
_ROOTS_MAX: Final = 64
_NAME_MAX: Final = 255
_RANGE: Final = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")
_UNSAFE: Final = re.compile(r'[^ -~]|["\\/]')
_T = TypeVar("_T")


class Reading:
    """One read of one client: only blocks of spaces that it may read are present."""

    def __init__(
        self, door: Door, request: Request, spaces: frozenset[bytes] | None, end: Callable[[], None]
    ) -> None:
        self._door = door
        self._path = request.scope["path"]
        self._spaces = spaces
        self.request = request
        self.end = end
        """Called, at least once, when everything is read or the client has gone."""
        self.walk_blocks = door.settings.walk_blocks

    async def step(self, step: Callable[[FindBlock], _T]) -> _T:
        """Run a short step over the blocks that the client may read, in the folder's thread."""
        return await self._door.service.reading(step, self._spaces)

    def headers(self, etag: str, roots: Sequence[Cid]) -> dict[str, str]:
        """Return the headers of every answer.

        Content that is named by its hash never changes. Content that not everybody may read is marked as
        private, so that no shared cache keeps it.
        """
        scope = "public" if self._spaces is None else "private"
        return {
            "ETag": etag,
            "Cache-Control": f"{scope}, max-age=29030400, immutable",
            "X-Content-Type-Options": "nosniff",
            "Content-Security-Policy": "default-src 'none'; sandbox",
            "Vary": "Accept, Authorization",
            "X-Ipfs-Path": self._path,
            "X-Ipfs-Roots": ",".join(cid.text for cid in roots[:_ROOTS_MAX]),
        }

    def has_etag(self, etag: str) -> bool:
        """Return whether the client has this representation."""
        known = self.request.headers.get("if-none-match", "")
        return known.strip() == "*" or etag in [
            etags.strip().removeprefix("W/") for etags in known.split(",")
        ]

    def byte_range(self, etag: str, size: int) -> tuple[int, int] | None:
        """Return start and stop of the request's only range; None for all bytes (also for several ranges).

        Raises `RangeUnsatisfiable` if the body has no byte of the range.
        """
        headers = self.request.headers
        match = _RANGE.fullmatch(headers.get("range", ""))
        if match is None or match[1] == match[2] == "" or headers.get("if-range", etag) != etag:
            return None
        if not match[1]:
            start, stop = max(0, size - int(match[2])), size
        else:
            start, stop = int(match[1]), min(size, int(match[2]) + 1) if match[2] else size
            if match[2] and int(match[2]) < int(match[1]):
                return None
        if start >= stop:
            raise RangeUnsatisfiable(f"{size} bytes are there")
        return start, stop

    async def stream(
        self, read: Callable[[FindBlock], Iterator[bytes]], status: int, headers: dict[str, str], kind: str
    ) -> Response:
        """Return a response whose body is read in pieces of a bounded size and time.

        Raises the error of the first piece. A later error cuts the response off, so that no client takes it
        for complete.
        """
        if self.request.method == "HEAD":
            return ReadResponse(self.end, _nothing(), status, headers, kind)

        def begin(find: FindBlock) -> tuple[Iterator[bytes], bytes]:
            parts = read(find)
            return parts, _next_piece(parts)

        parts, first = await self.step(begin)
        return ReadResponse(self.end, self._pieces(first, parts), status, headers, kind)

    async def _pieces(self, piece: bytes, parts: Iterator[bytes]) -> AsyncIterator[bytes]:
        while piece:
            yield piece
            piece = await self.step(lambda _: _next_piece(parts))


def _next_piece(parts: Iterator[bytes]) -> bytes:
    """Return the parts of a body that are read at once; empty after the last part."""
    piece = bytearray()
    until_s = time.monotonic() + TURN_S
    for part in parts:
        piece += part
        if len(piece) >= _BATCH_BYTES or time.monotonic() >= until_s:
            break
    return bytes(piece)


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield


class ReadResponse(StreamingResponse):
    """Response in pieces as they are read; `end` is called after the last piece that is sent."""

    def __init__(self, end: Callable[[], None], *response: Any) -> None:
        super().__init__(*response)
        self._end = end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response, and call `end` in any case."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._end()


def disposition(kind: str, name: str) -> str:
    """Return `Content-Disposition` with a file's name; a name that is not plain ASCII also by RFC 8187."""
    name = name[:_NAME_MAX]
    plain = _UNSAFE.sub("_", name)
    header = f'{kind}; filename="{plain}"'
    return header if plain == name else f"{header}; filename*=UTF-8''{quote(name, safe='')}"
