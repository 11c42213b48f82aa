"""Checks for shards and takes their parts (R27, R34). Shards are read as CARs of their DAGs."""

from __future__ import annotations

import re
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from culm_connectors.dag.http.answers.schemas import PartAnswer
from culm_connectors.dag.http.client_budgets import HttpClient
from culm_connectors.dag.http.door import Door, json_answer, parse_space, path_cid
from culm_connectors.dag.http.problems import (
    BodyTooLarge,
    RequestMalformed,
    problem,
    status_of,
)
from culm_connectors.dag.http.settings import PART_BYTES
from culm_models.dag.blocks.cid import Cid
from culm_models.dag.errors import DagSpoolFull
from culm_models.dag.exchange.ranges import Range
from culm_models.dag.exchange.settings import SpaceAbility
from culm_models.dag.wire.messages import CHUNK_SIZE, SHARD_SIZE_MAX, AckStatus

RANGES_HEADER: Final = "Culm-Ranges"
_CONTENT_RANGE: Final = re.compile(r"bytes ([0-9]{1,12})-([0-9]{1,12})/([0-9]{1,12})")


async def head_shard(door: Door, request: Request, client: HttpClient) -> Response:
    """Answer 200 with the size of a complete shard; else 404 with the ranges that this client has sent."""
    shard = path_cid(request)
    is_shown = await _is_shown(door, client, request, shard)
    size = await door.service.shard_size(shard) if is_shown else None
    if size is not None:
        return Response(headers={"Culm-Size": str(size), "Cache-Control": "no-store"})
    spooled = await door.service.spooled(shard, client.peer)
    headers = {} if spooled is None else _range_headers(*spooled)
    return Response(status_code=404, headers=headers)


async def put_shard(door: Door, request: Request, client: HttpClient) -> Response:
    """Take a part: 202 with the ranges so far, 201 when the shard is complete, verified and durable."""
    shard = path_cid(request)
    space = await _append_space(door, client, request)
    content_range = request.headers.get("content-range")
    start, stop, size = _parse_range(content_range) if content_range is not None else (0, -1, -1)
    data = await door.body(request, client, PART_BYTES)
    if content_range is None:
        stop = size = len(data)
    if len(data) != stop - start or not data:
        raise RequestMalformed(f"a body of {len(data)} bytes, but Content-Range states {stop - start}")
    part = await door.service.spool_part(space, shard, size, start, data, client.peer)
    if part.status in (AckStatus.REFUSED, AckStatus.LATER):
        code = part.code or DagSpoolFull.code
        status = status_of(code) if part.code else 503
        return problem(status, code, f"{shard} is not taken", {"Cache-Control": "no-store"})
    if part.status is AckStatus.NOT_HERE:
        answer = PartAnswer(shard=shard.text, size=size, ranges=list(part.ranges), is_whole=False)
        return json_answer(answer, 202, _range_headers(size, part.ranges))
    status = 201 if part.status is AckStatus.DURABLE else 200
    answer = PartAnswer(shard=shard.text, size=size, ranges=[], is_whole=True)
    return json_answer(answer, status)


async def _is_shown(door: Door, client: HttpClient, request: Request, shard: Cid) -> bool:
    """Return whether a client that may append or read may learn that a shard is here.

    For a client without access to all spaces, a shard that is not in one of its spaces is as good as absent.
    Raises `HttpRequestError`.
    """
    if "anyone" in (door.settings.append, door.settings.read):
        return True
    space = _named_space(door, client, request)
    if space is not None:
        await door.access.require_either(client, space)
        return await door.service.belongs(space, shard)
    spaces = await door.access.readable(client)
    if spaces is None:
        return True
    for readable in spaces:
        if await door.service.belongs(readable, shard):
            return True
    return False


def _named_space(door: Door, client: HttpClient, request: Request) -> bytes | None:
    """Return the space of a request: from its query, or from a token for exactly one space."""
    named = request.query_params.get("space")
    return door.access.appendable(client) if named is None else parse_space(named)


async def _append_space(door: Door, client: HttpClient, request: Request) -> bytes:
    """Return the space of a request, to which its client may append. Raises `HttpRequestError`."""
    space = _named_space(door, client, request)
    if space is None:
        raise RequestMalformed("say for which space: ?space=")
    await door.access.require(client, SpaceAbility.APPEND, space)
    return space


def _parse_range(text: str) -> tuple[int, int, int]:
    """Parse `Content-Range`: start, stop and size, aligned as R27 requires."""
    match = _CONTENT_RANGE.fullmatch(text)
    if match is None:
        raise RequestMalformed("Content-Range is not `bytes first-last/size`")
    start, stop, size = int(match[1]), int(match[2]) + 1, int(match[3])
    if not start < stop <= size:
        raise RequestMalformed("Content-Range: not first <= last < size")
    if size > SHARD_SIZE_MAX:
        raise BodyTooLarge(f"a shard over {SHARD_SIZE_MAX} bytes")
    if stop - start > PART_BYTES:
        raise BodyTooLarge(f"a part over {PART_BYTES} bytes")
    if start % CHUNK_SIZE or (stop % CHUNK_SIZE and stop != size):
        raise RequestMalformed(f"a part begins and ends at multiples of {CHUNK_SIZE}, or at the end")
    return start, stop, size


def _range_headers(size: int, ranges: tuple[Range, ...]) -> dict[str, str]:
    """Return `Culm-Ranges: first-last, … /size`; nothing before the slash while nothing is here."""
    listed = ", ".join(f"{offset}-{offset + length - 1}" for offset, length in ranges)
    return {RANGES_HEADER: f"{listed}/{size}", "Cache-Control": "no-store"}
