"""Reading by CID: a trustless gateway (one block, or a CAR of blocks), and files with ranges (9, 3.6)."""

from __future__ import annotations

import hashlib
import mimetypes
import re
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import Any, Final, TypeVar

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from culm_connectors.dag.http.answers.nodes import CAR_TYPE
from culm_connectors.dag.http.answers.schemas import DirectoryView, EntryView, SymlinkView
from culm_connectors.dag.http.clients import HttpClient
from culm_connectors.dag.http.door import Door, json_answer, parse_cid
from culm_connectors.dag.http.problems import RangeUnsatisfiable, RequestMalformed
from culm_connectors.dag.turns import TURN_S, in_turns
from culm_models.dag.blocks.cid import Cid
from culm_models.dag.blocks.dag_json import encode_dag_json
from culm_models.dag.car.writer import car_header, car_section
from culm_models.dag.paths.resolve import ContentKind, PathEnd, path_steps
from culm_models.dag.paths.scopes import DagScope, EntityBytes, blocks_of_end, parse_entity_bytes
from culm_models.dag.unixfs.directories import DirectoryEntry, directory_steps
from culm_models.dag.unixfs.files import file_size, read_file
from culm_models.dag.walk.reach import FindBlock, block_of

RAW_TYPE: Final = "application/vnd.ipld.raw"
DAG_JSON_TYPE: Final = "application/vnd.ipld.dag-json"
_BATCH_BYTES: Final = 1_048_576
_ENTRIES_MAX: Final = 1_000
_SEGMENTS_MAX: Final = 256
_RANGE: Final = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")
# What a browser may show without running anything of it.
_SHOWN: Final = re.compile(r"(image/(png|jpeg|gif|webp|avif)|audio/.+|video/.+|text/plain)")
_T = TypeVar("_T")


class _ReadResponse(StreamingResponse):
    """Pieces as they are read; `end` is called behind the last one that anybody gets."""

    def __init__(self, end: Callable[[], None], *given: Any) -> None:
        super().__init__(*given)
        self._end = end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See `StreamingResponse`."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._end()


class _Reading:
    """What one client reads: only blocks of spaces that it may read are found."""

    def __init__(self, door: Door, spaces: frozenset[bytes] | None, end: Callable[[], None]) -> None:
        self._door = door
        self.spaces = spaces
        self.end = end
        """Called when all of it is read, or nobody wants it any more; once or more."""
        self.walk_blocks = door.settings.walk_blocks

    async def step(self, step: Callable[[FindBlock], _T]) -> _T:
        """See `DagRoom.reading`."""
        return await self._door.room.reading(step, self.spaces)

    def headers(self, etag: str) -> dict[str, str]:
        """What is named by its hash never changes; what not everybody may read, nobody between us keeps."""
        scope = "public" if self.spaces is None else "private"
        return {
            "ETag": etag,
            "Cache-Control": f"{scope}, max-age=29030400, immutable",
            "X-Content-Type-Options": "nosniff",
            "Content-Security-Policy": "default-src 'none'; sandbox",
            "Vary": "Accept, Authorization",
        }


async def get_ipfs(door: Door, request: Request) -> Response:
    """`/ipfs/CID[/path]`: by `format` or `Accept` a block, a CAR, or else what stands at the path."""
    client: HttpClient = await door.enter(request)
    root, segments = _path(request.path_params["path"])
    spaces = await door.access.readable(client)
    reading = _Reading(door, spaces, await door.begin_read(request, client))
    try:
        match _format(request):
            case "raw":
                answer = await _raw(reading, request, root, segments)
            case "car":
                answer = await _car(reading, request, root, segments)
            case _:
                answer = await _content(reading, request, root, segments)
    except BaseException:
        reading.end()
        raise
    if not isinstance(answer, _ReadResponse):
        reading.end()
    return answer


def _path(text: str) -> tuple[Cid, list[str]]:
    root, *segments = text.split("/")
    if len(segments) > _SEGMENTS_MAX:
        raise RequestMalformed(f"a path of more than {_SEGMENTS_MAX} segments")
    return parse_cid(root), [segment for segment in segments if segment]


def _format(request: Request) -> str | None:
    """The format that is asked for; the parameter counts more than the header."""
    named = request.query_params.get("format")
    if named is not None:
        if named not in ("raw", "car"):
            raise RequestMalformed("format is raw or car")
        return named
    accepted = request.headers.get("accept", "")
    if RAW_TYPE in accepted:
        return "raw"
    return "car" if CAR_TYPE in accepted else None


def _has_etag(request: Request, etag: str) -> bool:
    given = request.headers.get("if-none-match", "")
    return given.strip() == "*" or etag in [one.strip().removeprefix("W/") for one in given.split(",")]


async def _raw(reading: _Reading, request: Request, root: Cid, segments: list[str]) -> Response:
    if segments:
        raise RequestMalformed("format=raw is of one block: a CID without a path")
    block = await reading.step(lambda find: block_of(root, find))
    etag = f'"{root.text}.raw"'
    headers = reading.headers(etag)
    if _has_etag(request, etag):
        return Response(None, 304, headers)
    headers |= {"Content-Disposition": f'attachment; filename="{root.text[:200]}.bin"'}
    return Response(block, 200, headers, RAW_TYPE)


async def _car(reading: _Reading, request: Request, root: Cid, segments: list[str]) -> Response:
    scope, entity = _scope(request)
    end = await in_turns(reading.step, lambda find: path_steps(root, segments, find))
    wanted = hashlib.sha256(repr((segments, scope, entity)).encode()).hexdigest()[:16]
    etag = f'"{root.text}.car.{wanted}"'
    headers = reading.headers(etag)
    if _has_etag(request, etag):
        return Response(None, 304, headers)
    headers |= {
        "Content-Disposition": f'attachment; filename="{root.text[:200]}.car"',
        "X-Ipfs-Roots": ",".join(cid.text for cid in end.passed[:64]),
    }
    pieces = _CarPieces(root, end, scope, entity, reading.walk_blocks)
    first = await reading.step(pieces.next)
    kind = f"{CAR_TYPE}; version=1; order=dfs; dups=n"
    return _ReadResponse(reading.end, _streamed(reading, first, pieces.next), 200, headers, kind)


def _scope(request: Request) -> tuple[DagScope, EntityBytes | None]:
    query = request.query_params
    try:
        scope = DagScope(query.get("dag-scope", "all"))
    except ValueError:
        raise RequestMalformed("dag-scope is block, entity or all") from None
    named = query.get("entity-bytes")
    if named is None:
        return scope, None
    # A range is one of an entity: as with other gateways, it says so itself.
    return DagScope.ENTITY if scope is DagScope.ALL else scope, parse_entity_bytes(named)


class _CarPieces:
    """A CAR, a bounded piece at a time."""

    def __init__(
        self, root: Cid, end: PathEnd, scope: DagScope, entity: EntityBytes | None, most: int
    ) -> None:
        self._root = root
        self._end = end
        self._scope = scope
        self._entity = entity
        self._most = most
        self._cids: Iterator[Cid] | None = None

    def next(self, find: FindBlock) -> bytes:
        """The next piece; empty behind the last one. Raises where a block is not here."""
        out = bytearray()
        if self._cids is None:
            self._cids = blocks_of_end(self._end, find, self._scope, self._entity, most=self._most)
            out += car_header([self._root])
        until_s = time.monotonic() + TURN_S
        while len(out) < _BATCH_BYTES:
            cid = next(self._cids, None)
            if cid is None:
                break
            out += car_section(cid, block_of(cid, find))
            if time.monotonic() >= until_s:
                break
        return bytes(out)


async def _streamed(
    reading: _Reading, first: bytes, more: Callable[[FindBlock], bytes]
) -> AsyncIterator[bytes]:
    """Pieces up to an empty one. An error cuts the response off, so that nobody takes it for whole."""
    piece = first
    while piece:
        yield piece
        piece = await reading.step(more)


async def _content(reading: _Reading, request: Request, root: Cid, segments: list[str]) -> Response:
    end = await in_turns(reading.step, lambda find: path_steps(root, segments, find))
    etag = f'"{end.cid.text}"' if end.kind is not ContentKind.VALUE else f'"{root.text}/{_digest(segments)}"'
    headers = reading.headers(etag)
    headers["X-Ipfs-Roots"] = ",".join(cid.text for cid in end.passed[:64])
    if _has_etag(request, etag):
        return Response(None, 304, headers)
    match end.kind:
        case ContentKind.DIRECTORY:
            most = reading.walk_blocks
            view = await in_turns(reading.step, lambda find: _directory(end.cid, find, most))
            return json_answer(view, 200, headers)
        case ContentKind.SYMLINK:
            return json_answer(SymlinkView(cid=end.cid.text, target=str(end.value)), 200, headers)
        case ContentKind.VALUE:
            return Response(encode_dag_json(end.value), 200, headers, DAG_JSON_TYPE)
        case _:
            return await _file(reading, request, end, segments, headers)


def _digest(segments: list[str]) -> str:
    return hashlib.sha256("/".join(segments).encode()).hexdigest()[:16]


def _directory(cid: Cid, find: FindBlock, most: int) -> Generator[None, None, DirectoryView]:
    entries: list[EntryView] = []
    for passed, one in enumerate(directory_steps(cid, find)):
        if len(entries) == _ENTRIES_MAX or passed == most:
            return DirectoryView(cid=cid.text, entries=entries, is_cut=True)
        if isinstance(one, DirectoryEntry):
            entries.append(EntryView(name=one.name, cid=one.cid.text, size=one.size))
        yield
    return DirectoryView(cid=cid.text, entries=entries, is_cut=False)


async def _file(
    reading: _Reading, request: Request, end: PathEnd, segments: list[str], headers: dict[str, str]
) -> Response:
    is_whole_block = end.kind is ContentKind.RAW
    if is_whole_block:
        size = len(end.block)
    else:
        size = await reading.step(lambda find: file_size(end.cid, find))
    asked = _byte_range(request, headers["ETag"], size)
    start, stop = asked or (0, size)
    status = 200 if asked is None else 206
    kind = mimetypes.guess_type(segments[-1])[0] if segments else None
    if kind is None or not _SHOWN.fullmatch(kind):
        kind = "application/octet-stream"
        headers["Content-Disposition"] = "attachment"
    headers |= {"Accept-Ranges": "bytes", "Content-Length": str(stop - start)}
    if status == 206:
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
    if request.method == "HEAD":
        return Response(None, status, headers, kind)
    if is_whole_block:
        return Response(end.block[start:stop], status, headers, kind)
    pieces = _FilePieces(end.cid, start, stop)
    first = await reading.step(pieces.next)
    return _ReadResponse(reading.end, _streamed(reading, first, pieces.next), status, headers, kind)


class _FilePieces:
    """A range of a file, a bounded piece at a time."""

    def __init__(self, cid: Cid, start: int, stop: int) -> None:
        self._cid = cid
        self._range = (start, stop)
        self._pieces: Iterator[bytes] | None = None

    def next(self, find: FindBlock) -> bytes:
        """The next piece; empty behind the last one. Raises where a block is not here."""
        if self._pieces is None:
            self._pieces = read_file(self._cid, find, *self._range)
        found: list[bytes] = []
        size = 0
        until_s = time.monotonic() + TURN_S
        while size < _BATCH_BYTES and (piece := next(self._pieces, None)) is not None:
            found.append(piece)
            size += len(piece)
            if time.monotonic() >= until_s:
                break
        return b"".join(found)


def _byte_range(request: Request, etag: str, size: int) -> tuple[int, int] | None:
    """Start and stop of the one range that is asked for; None where all is given (several ranges, too)."""
    found = _RANGE.fullmatch(request.headers.get("range", ""))
    if found is None or found[1] == found[2] == "" or request.headers.get("if-range", etag) != etag:
        return None
    if not found[1]:
        start, stop = max(0, size - int(found[2])), size
    else:
        start, stop = int(found[1]), min(size, int(found[2]) + 1) if found[2] else size
        if found[2] and int(found[2]) < int(found[1]):
            return None
    if start >= stop:
        raise RangeUnsatisfiable(f"the file has {size} bytes")
    return start, stop
