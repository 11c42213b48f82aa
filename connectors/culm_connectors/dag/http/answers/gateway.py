"""Reads by CID: a trustless gateway (one block, or a CAR of blocks), and the content at a path (9, 3.6)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from culm_connectors.dag.http.accept import MediaRange, parse_accept
from culm_connectors.dag.http.answers.content import answer_content
from culm_connectors.dag.http.answers.nodes import CAR_TYPE
from culm_connectors.dag.http.answers.reading import Reading, ReadResponse, disposition
from culm_connectors.dag.http.client_budgets import HttpClient
from culm_connectors.dag.http.door import Door, parse_cid, path_text
from culm_connectors.dag.http.problems import NotAcceptable, NotCached, RequestMalformed
from culm_connectors.edge.fair_turns import in_turns
from culm_models.dag.blocks.cid import Cid
from culm_models.dag.car.writer import car_header, car_section
from culm_models.dag.errors import BlockMissing
from culm_models.dag.paths.resolve import path_steps
from culm_models.dag.paths.scopes import DagScope, EntityBytes, blocks_of_end, parse_entity_bytes
from culm_models.dag.walk.reach import FindBlock, block_of

RAW_TYPE: Final = "application/vnd.ipld.raw"
_SEGMENTS_MAX: Final = 256
# `unk` allows any order; the answer is then in the order `dfs`, too.
_VARIANTS: Final = {"version": ("1",), "order": ("dfs", "unk"), "dups": ("n", "y")}


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The representation that a request asks for: a block, a CAR, or the content at the path."""

    format: str | None = None
    car: CarForm | None = None
    quality: float = 1.0


async def get_ipfs(door: Door, request: Request, client: HttpClient) -> Response:
    """Answer `/ipfs/CID[/path]`.

    `format` or `Accept` selects a block or a CAR; by default it is the content at the path.
    """
    root, segments = _path(request.path_params["path"])
    wanted = _wanted(request)
    spaces = await door.access.readable(client)
    reading = Reading(door, request, spaces, await door.begin_read(request, client))
    try:
        answer = await _answer(reading, wanted, root, segments)
    except BaseException as error:
        reading.end()
        if isinstance(error, BlockMissing) and _only_if_cached(request):
            raise NotCached(str(error)) from None
        raise
    if not isinstance(answer, ReadResponse):
        reading.end()
    return answer


async def _answer(reading: Reading, wanted: _Wanted, root: Cid, segments: list[str]) -> Response:
    query = reading.request.query_params
    if wanted.format is None:
        return await answer_content(reading, root, segments)
    if wanted.car is None:
        answer = await _raw(reading, root, segments, query.get("filename") or f"{root.text[:200]}.bin")
    else:
        name = query.get("filename") or f"{root.text[:200]}.car"
        answer = await answer_car(reading, wanted.car, root, segments, name)
    if "format" not in query:
        answer.headers["Content-Location"] = _location(reading.request, wanted)
    return answer


def _path(text: str) -> tuple[Cid, list[str]]:
    root, *segments = text.split("/")
    if len(segments) > _SEGMENTS_MAX:
        raise RequestMalformed(f"a path of more than {_SEGMENTS_MAX} segments")
    return parse_cid(path_text(root)), [path_text(segment) for segment in segments if segment]


def _wanted(request: Request) -> _Wanted:
    """Return the requested format; the parameter precedes the header. Raises `HttpRequestError`."""
    named = request.query_params.get("format")
    ranges = parse_accept(request.headers.getlist("accept"))
    if named not in (None, "raw", "car"):
        raise RequestMalformed("format is raw or car")
    if named == "raw":
        return _Wanted("raw")
    cars = [media_range for media_range in ranges if media_range.kind == CAR_TYPE and media_range.quality]
    if named == "car":
        cars = cars or [MediaRange(CAR_TYPE, {}, 1.0)]
        ranges = cars
    # The content at the path may have any other type.
    content = max(
        (media_range.quality for media_range in ranges if media_range.kind not in (RAW_TYPE, CAR_TYPE)),
        default=0.0,
    )
    offers = [
        offer
        for media_range in ranges
        if media_range.quality and (offer := _offer(media_range, request)) is not None
    ]
    best = max(offers, key=lambda offer: offer.quality, default=None)
    if best is not None and best.quality >= content:
        return best
    if best is None and cars and not content:
        raise NotAcceptable("a CAR is of version 1, in the order dfs or unk, with dups n or y")
    return _Wanted()


def _offer(accepted: MediaRange, request: Request) -> _Wanted | None:
    if accepted.kind == RAW_TYPE:
        return _Wanted("raw", None, accepted.quality)
    form = car_form(accepted.parameters, request.query_params) if accepted.kind == CAR_TYPE else None
    return None if form is None else _Wanted("car", form, accepted.quality)


def _location(request: Request, wanted: _Wanted) -> str:
    """Return the URL of the representation that `Accept` has chosen, for caches that ignore this header."""
    query = request.url.query
    added = [query] if query else []
    added.append(f"format={wanted.format}")
    if wanted.car is not None and "car-dups" not in request.query_params:
        added.append(f"car-dups={'y' if wanted.car.repeats else 'n'}")
    return f"{request.scope['path']}?{'&'.join(added)}"


def _only_if_cached(request: Request) -> bool:
    cache_control = ",".join(request.headers.getlist("cache-control")).lower()
    return "only-if-cached" in [directive.strip() for directive in cache_control.split(",")]


async def _raw(reading: Reading, root: Cid, segments: list[str], name: str) -> Response:
    if segments:
        raise RequestMalformed("a raw block is named by a CID without a path")
    block = await reading.step(lambda find: block_of(root, find))
    etag = f'"{root.text}.raw"'
    headers = reading.headers(etag, [root])
    if reading.has_etag(etag):
        return Response(None, 304, headers)
    headers |= {"Content-Disposition": disposition("attachment", name), "Accept-Ranges": "bytes"}
    part = reading.byte_range(etag, len(block))
    if part is None:
        return Response(block, 200, headers, RAW_TYPE)
    headers["Content-Range"] = f"bytes {part[0]}-{part[1] - 1}/{len(block)}"
    return Response(block[slice(*part)], 206, headers, RAW_TYPE)


@dataclass(frozen=True, slots=True)
class CarForm:
    """Form of a CAR: depth first, with each block once, or repeated wherever the walk reaches it."""

    repeats: bool


def car_form(parameters: Mapping[str, str], query: QueryParams) -> CarForm | None:
    """Return the form of a CAR, by the query or else the media type's parameters; None if unsupported."""
    asked = {name: query.get(f"car-{name}") or parameters.get(name) for name in _VARIANTS}
    if any(value and value not in _VARIANTS[name] for name, value in asked.items()):
        return None
    return CarForm(repeats=asked["dups"] == "y")


async def answer_car(reading: Reading, form: CarForm, root: Cid, segments: list[str], name: str) -> Response:
    """Answer with the CAR of a path. Raises if a block on the way is not here."""
    scope, entity = _scope(reading.request.query_params)
    end = await in_turns(reading.step, lambda find: path_steps(root, segments, find))
    variant = hashlib.sha256(repr((segments, scope, entity, form)).encode()).hexdigest()[:16]
    etag = f'"{root.text}.car.{variant}"'
    headers = reading.headers(etag, end.roots)
    if reading.has_etag(etag):
        return Response(None, 304, headers)
    headers |= {"Content-Disposition": disposition("attachment", name), "Accept-Ranges": "none"}

    def read(find: FindBlock) -> Iterator[bytes]:
        cids = blocks_of_end(end, find, scope, entity, repeats=form.repeats, limit=reading.walk_blocks)
        return _car(root, cids, find)

    kind = f"{CAR_TYPE}; version=1; order=dfs; dups={'y' if form.repeats else 'n'}"
    return await reading.stream(read, 200, headers, kind)


def _scope(query: QueryParams) -> tuple[DagScope, EntityBytes | None]:
    try:
        scope = DagScope(query.get("dag-scope", "all"))
    except ValueError:
        raise RequestMalformed("dag-scope is block, entity or all") from None
    named = query.get("entity-bytes")
    if named is None:
        return scope, None
    # A byte range applies to an entity: as with other gateways, it implies this scope.
    return DagScope.ENTITY if scope is DagScope.ALL else scope, parse_entity_bytes(named)


def _car(root: Cid, cids: Iterator[Cid], find: FindBlock) -> Iterator[bytes]:
    yield car_header([root])
    for cid in cids:
        yield car_section(cid, block_of(cid, find))
