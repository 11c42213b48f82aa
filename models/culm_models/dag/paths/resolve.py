"""Resolution of paths (3.6): map keys and list indexes, names in directories, fields of other dag-pb nodes.

Links are followed, on the path and at its end. Symlinks are not followed; a path that continues after a
symlink does not resolve.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from culm_models.dag.blocks.cid import DAG_CBOR, DAG_JSON, DAG_PB, Cid, cid_from_text
from culm_models.dag.blocks.dag_cbor import decode_dag_cbor
from culm_models.dag.blocks.dag_json import decode_dag_json
from culm_models.dag.blocks.dag_pb import PbNode, decode_dag_pb
from culm_models.dag.errors import PathUnknown
from culm_models.dag.unixfs.directories import entry_steps, is_directory
from culm_models.dag.unixfs.message import NodeKind, UnixFsNode, read_unixfs
from culm_models.dag.walk.reach import FindBlock, block_of

_INDEX_DIGITS_MAX: Final = 10


class ContentKind(StrEnum):
    """The kind of content at the end of a path."""

    FILE = "file"
    RAW = "raw"
    DIRECTORY = "directory"
    SYMLINK = "symlink"
    VALUE = "value"


@dataclass(frozen=True, slots=True)
class PathEnd:
    """The end of a resolved path."""

    cid: Cid
    """The block in which it ends."""
    kind: ContentKind
    block: bytes = field(repr=False)
    passed: tuple[Cid, ...]
    """Blocks that prove the path, each once and in order; the block in which it ends is the last."""
    value: Any = None
    """The value at the end of the path, or the target of a symlink."""
    roots: tuple[Cid, ...] = ()
    """The blocks of `passed` to which a segment or a link leads, without the inner shards of directories."""


def parse_path(text: str) -> tuple[Cid, tuple[str, ...]]:
    """Parse `CID/segment/…` into the root and the segments. Empty segments are ignored, as elsewhere.

    Raises `CidMalformed`.
    """
    root, *segments = text.split("/")
    return cid_from_text(root), tuple(segment for segment in segments if segment)


def resolve_path(root: Cid, segments: Sequence[str], find: FindBlock) -> PathEnd:
    """Follow segments from a root.

    Raises `PathUnknown` if a segment names nothing, and `BlockMissing` if a block is missing.
    """
    steps = path_steps(root, segments, find)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            path_end: PathEnd = end.value
            return path_end


def path_steps(root: Cid, segments: Sequence[str], find: FindBlock) -> Generator[None, None, PathEnd]:
    """Follow segments like `resolve_path`, but as a generator that reads one block per step."""
    passed: dict[Cid, None] = {}
    roots: list[Cid] = []
    at, rest = root, list(segments)[::-1]
    while True:
        block = block_of(at, find)
        passed.pop(at, None)
        passed[at] = None
        roots.append(at)
        value, message = _open(at, block)
        yield
        if message is not None and is_directory(message):
            if not rest:
                return PathEnd(at, ContentKind.DIRECTORY, block, tuple(passed), roots=tuple(roots))
            name = rest.pop()
            entry, shards = yield from entry_steps(at, name, find)
            passed.update(dict.fromkeys(shards))
            if entry is None:
                raise PathUnknown(f"no {name[:100]!r} in the directory {at}")
            at = entry
            continue
        link = _descend(at, value, rest)
        if isinstance(link, Cid):
            at = link
            continue
        end = _end(at, block, tuple(passed), link, message, inside=link is not value)
        return replace(end, roots=tuple(roots))


def _open(cid: Cid, block: bytes) -> tuple[Any, UnixFsNode | None]:
    """Decode a block to its value and, for dag-pb, its UnixFS node. Other codecs give the bytes."""
    if cid.codec == DAG_CBOR:
        return decode_dag_cbor(block), None
    if cid.codec == DAG_JSON:
        return decode_dag_json(block), None
    if cid.codec == DAG_PB:
        node = decode_dag_pb(block)
        return _pb_value(node), read_unixfs(node)
    return block, None


def _pb_value(node: PbNode) -> dict[str, Any]:
    links: list[dict[str, Any]] = []
    for link in node.links:
        fields: dict[str, Any] = {"Hash": link.cid}
        if link.name is not None:
            fields["Name"] = link.name
        if link.size is not None:
            fields["Tsize"] = link.size
        links.append(fields)
    value: dict[str, Any] = {} if node.data is None else {"Data": node.data}
    return {**value, "Links": links}


def _descend(cid: Cid, value: Any, rest: list[str]) -> Any:
    """Follow and remove segments of `rest` until a link or the end. Returns the link or the value."""
    while rest and not isinstance(value, Cid):
        segment = rest.pop()
        if isinstance(value, dict) and segment in value:
            value = value[segment]
        elif isinstance(value, list) and (index := _index(segment)) is not None and index < len(value):
            value = value[index]
        else:
            raise PathUnknown(f"no {segment[:100]!r} in the block {cid}")
    return value


def _index(segment: str) -> int | None:
    """Parse a list index: decimal, without leading zeros. Returns None for any other segment."""
    if len(segment) > _INDEX_DIGITS_MAX or not (segment.isascii() and segment.isdigit()):
        return None
    return int(segment) if segment == "0" or segment[0] != "0" else None


def _end(
    cid: Cid, block: bytes, passed: tuple[Cid, ...], value: Any, message: UnixFsNode | None, *, inside: bool
) -> PathEnd:
    if message is not None and not inside:
        if message.kind in (NodeKind.FILE, NodeKind.RAW):
            return PathEnd(cid, ContentKind.FILE, block, passed)
        if message.kind == NodeKind.SYMLINK:
            target = message.data.decode(errors="replace")
            return PathEnd(cid, ContentKind.SYMLINK, block, passed, target)
    if cid.codec not in (DAG_CBOR, DAG_JSON, DAG_PB):
        return PathEnd(cid, ContentKind.RAW, block, passed)
    return PathEnd(cid, ContentKind.VALUE, block, passed, value)
