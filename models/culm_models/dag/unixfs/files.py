"""Reading of files (3.6): their bytes in order, ranges of them, and the blocks that hold a range.

The sizes that a node states for its children are checked against the children. The functions do not recurse,
and links to parts of zero bytes are not followed, so that a small DAG cannot occupy a reader without yielding
bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from culm_models.dag.blocks.cid import DAG_PB, RAW, Cid
from culm_models.dag.blocks.dag_pb import decode_dag_pb
from culm_models.dag.errors import DagPbMalformed
from culm_models.dag.unixfs.message import NodeKind, read_unixfs
from culm_models.dag.walk.reach import FindBlock, block_of

DEPTH_MAX: Final = 128
"""Maximum number of blocks above a leaf. Balanced trees of any size have fewer than ten."""

_FILES: Final = (NodeKind.FILE, NodeKind.RAW)

PENDING_MAX: Final = 262_144
"""Maximum number of parts that are known and not read yet. A balanced tree has one node width per level."""


class FilePart:
    """A block of a file: its own bytes, and the parts below it with their sizes."""

    __slots__ = ("data", "links", "size", "sizes")

    def __init__(self, cid: Cid, block: bytes) -> None:
        self.data = block
        self.links: tuple[Cid, ...] = ()
        self.sizes: tuple[int, ...] = ()
        if cid.codec == DAG_PB:
            node = decode_dag_pb(block)
            message = read_unixfs(node)
            if message is None or message.kind not in _FILES:
                raise DagPbMalformed(f"{cid} is no part of a file")
            self.data = message.data
            self.sizes = message.block_sizes
            self.links = tuple(link.cid for link in node.links)
        elif cid.codec != RAW:
            raise DagPbMalformed(f"{cid} is no part of a file")
        self.size = len(self.data) + sum(self.sizes)


def file_part(cid: Cid, find: FindBlock, announced: int | None = None) -> FilePart:
    """Read a block of a file. Raises `DagPbMalformed` if its size is not the one that its parent states."""
    part = FilePart(cid, block_of(cid, find))
    if announced is not None and part.size != announced:
        raise DagPbMalformed(f"{cid} has {part.size} bytes of the file, not {announced}")
    return part


def file_size(cid: Cid, find: FindBlock) -> int:
    """Return the size of a file in bytes, according to its first block."""
    return file_part(cid, find).size


def read_file(cid: Cid, find: FindBlock, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
    """Yield the bytes of a file from `start` up to, not including, `stop`, in pieces of at most one block."""
    root = file_part(cid, find)
    stop = root.size if stop is None else min(stop, root.size)
    parts: list[tuple[FilePart | Cid, int, int, int]] = [(root, 0, root.size, 0)]
    while parts and start < stop:
        unread, at, size, depth = parts.pop()
        if at >= stop or at + size <= start:
            continue
        part = unread if isinstance(unread, FilePart) else file_part(unread, find, size)
        piece = part.data[max(0, start - at) : stop - at]
        if piece:
            yield piece
        _add(parts, part, at, depth)


def file_blocks(
    cid: Cid, find: FindBlock, start: int = 0, stop: int | None = None, *, repeats: bool = False
) -> Iterator[Cid]:
    """Yield the blocks that hold a range of a file, a block before its children.

    The first block is always included. Each block is yielded once, or with `repeats` at each of its
    positions. Without `repeats`, a part that is entirely in the range is walked once per CID, so that the
    work depends on the number of blocks, not of bytes.
    """
    root = file_part(cid, find)
    stop = root.size if stop is None else min(stop, root.size)
    yield cid
    yielded: set[Cid] = {cid}
    whole: set[Cid] = set()
    parts: list[tuple[Cid, int, int, int]] = []
    if start < stop:
        _add(parts, root, 0, 0)
    while parts:
        child, at, size, depth = parts.pop()
        if at >= stop or at + size <= start or child in whole:
            continue
        if not repeats and start <= at and at + size <= stop:
            whole.add(child)
        part = file_part(child, find, size)
        if repeats or child not in yielded:
            yielded.add(child)
            yield child
        _add(parts, part, at, depth)


def _add(parts: list[Any], part: FilePart, at: int, depth: int) -> None:
    """Push the non-empty parts below a block with their offsets, in reverse, so that the first is on top."""
    if part.links and depth == DEPTH_MAX:
        raise DagPbMalformed(f"a file of more than {DEPTH_MAX} levels")
    at += len(part.data)
    below = []
    for link, size in zip(part.links, part.sizes, strict=True):
        if size:
            below.append((link, at, size, depth + 1))
            at += size
    if len(parts) + len(below) > PENDING_MAX:
        raise DagPbMalformed(f"a file with more than {PENDING_MAX} parts side by side")
    parts += below[::-1]
