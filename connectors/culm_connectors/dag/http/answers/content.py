"""Answers with the content at a path: a file with ranges, a page of a directory, a symlink, a value."""

from __future__ import annotations

import hashlib
import mimetypes
import re
from collections.abc import Generator
from typing import Final

from starlette.datastructures import QueryParams
from starlette.responses import Response

from culm_connectors.dag.http.answers.reading import Reading, disposition
from culm_connectors.dag.http.answers.schemas import DirectoryView, EntryView, SymlinkView
from culm_connectors.dag.http.door import json_answer
from culm_connectors.dag.http.problems import RequestMalformed
from culm_connectors.edge.fair_turns import in_turns
from culm_models.dag.blocks.cid import Cid
from culm_models.dag.blocks.dag_json import encode_dag_json
from culm_models.dag.paths.resolve import ContentKind, PathEnd, path_steps
from culm_models.dag.unixfs.directories import DirectoryEntry, DirectoryWalk
from culm_models.dag.unixfs.files import file_size, read_file
from culm_models.dag.walk.reach import FindBlock

DAG_JSON_TYPE: Final = "application/vnd.ipld.dag-json"
_PAGE: Final = 1_000
_PLACE: Final = re.compile(r"[0-9]{1,7}(\.[0-9]{1,7}){0,31}")
# Types that a browser may show without running any of the content.
_SHOWN: Final = re.compile(r"(image/(png|jpeg|gif|webp|avif)|audio/.+|video/.+|text/plain)")


async def answer_content(reading: Reading, root: Cid, segments: list[str]) -> Response:
    """Answer with the content at a path.

    Raises if the path leads nowhere, or a block on the way is not here.
    """
    start = _start(reading.request.query_params)
    end = await in_turns(reading.step, lambda find: path_steps(root, segments, find))
    etag = f'"{end.cid.text}"'
    if end.kind is ContentKind.VALUE:
        etag = f'"{root.text}/{hashlib.sha256("/".join(segments).encode()).hexdigest()[:16]}"'
    elif end.kind is ContentKind.DIRECTORY:
        etag = f'"{end.cid.text}.from.{_text(start)}"'
    headers = reading.headers(etag, end.roots)
    if reading.has_etag(etag):
        return Response(None, 304, headers)
    match end.kind:
        case ContentKind.DIRECTORY:
            max_steps = reading.walk_blocks
            view = await in_turns(reading.step, lambda find: _page(end.cid, find, start, max_steps))
            return json_answer(view, 200, headers)
        case ContentKind.SYMLINK:
            return json_answer(SymlinkView(cid=end.cid.text, target=str(end.value)), 200, headers)
        case ContentKind.VALUE:
            return Response(encode_dag_json(end.value), 200, headers, DAG_JSON_TYPE)
        case _:
            return await _file(reading, end, segments, headers)


def _start(query: QueryParams) -> tuple[int, ...]:
    """Return the place in a directory at which a page begins. Raises `RequestMalformed`."""
    text = query.get("start", "0")
    if _PLACE.fullmatch(text) is None:
        raise RequestMalformed("start is the `next` of the previous page")
    return tuple(int(number) for number in text.split("."))


def _text(position: tuple[int, ...]) -> str:
    return ".".join(map(str, position))


def _page(
    cid: Cid, find: FindBlock, start: tuple[int, ...], max_steps: int
) -> Generator[None, None, DirectoryView]:
    """Return the entries of a directory from a place on, within the limits of a page and of a walk."""
    walk = DirectoryWalk(cid, find, start)
    entries: list[EntryView] = []
    for steps, step in enumerate(walk.steps(), 1):
        if isinstance(step, DirectoryEntry):
            entries.append(EntryView(name=step.name, cid=step.cid.text, size=step.size))
        # However low the limit is, a page makes progress from where it began.
        if len(entries) == _PAGE or (steps >= max_steps and walk.place > start):
            break
        yield
    following = _text(walk.place) if walk.has_more else None
    return DirectoryView(cid=cid.text, entries=entries, is_cut=following is not None, next=following)


async def _file(reading: Reading, end: PathEnd, segments: list[str], headers: dict[str, str]) -> Response:
    is_whole_block = end.kind is ContentKind.RAW
    if is_whole_block:
        size = len(end.block)
    else:
        size = await reading.step(lambda find: file_size(end.cid, find))
    asked = reading.byte_range(headers["ETag"], size)
    start, stop = asked or (0, size)
    status = 200 if asked is None else 206
    kind = _name_file(reading.request.query_params, segments, headers)
    headers |= {"Accept-Ranges": "bytes", "Content-Length": str(stop - start)}
    if status == 206:
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
    if is_whole_block:
        return Response(end.block[start:stop], status, headers, kind)
    return await reading.stream(lambda find: read_file(end.cid, find, start, stop), status, headers, kind)


def _name_file(query: QueryParams, segments: list[str], headers: dict[str, str]) -> str:
    """Return the type of a file by its name, and set the header that names the file for saving."""
    wanted = query.get("filename")
    kind = mimetypes.guess_type(wanted or segments[-1])[0] if wanted or segments else None
    is_shown = kind is not None and _SHOWN.fullmatch(kind) is not None
    how = "inline" if is_shown and query.get("download") != "true" else "attachment"
    if wanted:
        headers["Content-Disposition"] = disposition(how, wanted)
    elif how == "attachment":
        headers["Content-Disposition"] = how
    return kind if is_shown and kind is not None else "application/octet-stream"
