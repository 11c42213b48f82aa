"""Reading of directories (3.6): in one node, or sharded over many by the hashes of their names (HAMT)."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import mmh3

from culm_models.dag.blocks.cid import DAG_PB, Cid
from culm_models.dag.blocks.dag_pb import PbLink, PbNode, decode_dag_pb
from culm_models.dag.errors import DagPbMalformed, PathUnknown
from culm_models.dag.unixfs.message import NodeKind, UnixFsNode, read_unixfs
from culm_models.dag.walk.reach import FindBlock, block_of

_HASH_BITS: Final = 64
_TOO_DEEP: Final = "a sharded directory deeper than its hashes"
_DIRECTORIES: Final = (NodeKind.DIRECTORY, NodeKind.SHARDED_DIRECTORY)


@dataclass(frozen=True, slots=True)
class DirectoryEntry:
    """A name in a directory, and its content."""

    name: str
    cid: Cid
    size: int | None
    """Tsize: the total size of all blocks below, in bytes."""


def list_directory(cid: Cid, find: FindBlock) -> Iterator[DirectoryEntry]:
    """Yield the entries of a directory in stored order, the entries of a shard in the place of its link."""
    for step in DirectoryWalk(cid, find).steps():
        if isinstance(step, DirectoryEntry):
            yield step


def directory_blocks(cid: Cid, find: FindBlock) -> Iterator[Cid]:
    """Yield the blocks that hold the names of a directory, each once."""
    for step in DirectoryWalk(cid, find).steps():
        if isinstance(step, Cid):
            yield step


def entry_steps(cid: Cid, name: str, find: FindBlock) -> Generator[None, None, tuple[Cid | None, list[Cid]]]:
    """Look up a name in a directory, as a generator that reads one block per step.

    Returns the CID of the entry, or None if there is no such name, and the blocks that prove it, in order.
    """
    at: Cid = cid
    passed: list[Cid] = []
    shift = _HASH_BITS
    hashed: int | None = None
    while True:
        passed.append(at)
        node, message = _directory(at, find)
        yield
        if message.kind == NodeKind.DIRECTORY:
            if len(passed) > 1:
                raise DagPbMalformed("a malformed shard of a directory")
            return _named(node, name), passed
        shift -= _width(message)
        if shift < 0:
            raise DagPbMalformed(_TOO_DEEP)
        if hashed is None:
            hashed = mmh3.hash64(name.encode(), signed=False)[0]
        prefix = _prefix(hashed >> shift & (message.fanout - 1), message.fanout)
        below = _named(node, prefix)
        if below is None:
            return _named(node, prefix + name), passed
        at = below


def is_directory(message: UnixFsNode) -> bool:
    """Whether a node is a directory, sharded or not."""
    return message.kind in _DIRECTORIES


def _named(node: PbNode, name: str) -> Cid | None:
    # If a name occurs twice, the first entry counts.
    return next((link.cid for link in node.links if link.name == name), None)


def _prefix(bucket: int, fanout: int) -> str:
    return f"{bucket:0{_digits(fanout)}X}"


def _digits(fanout: int) -> int:
    return len(f"{fanout - 1:X}")


def _entry_name(link: PbLink, message: UnixFsNode) -> str | None:
    """Return the name of an entry, or None if the link leads to a further shard."""
    name = link.name or ""
    if message.kind == NodeKind.DIRECTORY:
        return name
    return name[_digits(message.fanout) :] or None


def _directory(cid: Cid, find: FindBlock) -> tuple[PbNode, UnixFsNode]:
    if cid.codec != DAG_PB:
        raise DagPbMalformed(f"{cid} is no part of a directory")
    node = decode_dag_pb(block_of(cid, find))
    message = read_unixfs(node)
    if message is None or message.kind not in _DIRECTORIES:
        raise DagPbMalformed(f"{cid} is no part of a directory")
    return node, message


@dataclass(slots=True)
class _Level:
    """A node of a directory that the walk has entered, and the index of its current link."""

    message: UnixFsNode
    links: tuple[PbLink, ...]
    width: int
    """Bits of a name's hash that are used down to this node, including it."""
    at: int = 0


class DirectoryWalk:
    """A walk over a directory, from its beginning or from the `place` of an earlier walk."""

    def __init__(self, cid: Cid, find: FindBlock, position: Sequence[int] = ()) -> None:
        self._cid = cid
        self._find = find
        self._start = tuple(position) or (0,)
        self._levels: list[_Level] = []

    @property
    def place(self) -> tuple[int, ...]:
        """Index of the next link in each entered node, from the root down; empty after the last entry."""
        return tuple(level.at for level in self._levels)

    @property
    def has_more(self) -> bool:
        """Whether entries follow the current place. The walk must have begun."""
        return any(level.at + (level is not self._levels[-1]) < len(level.links) for level in self._levels)

    def steps(self) -> Iterator[Cid | DirectoryEntry]:
        """Yield the nodes of the directory, each once, and its entries, those of a shard in its place.

        Each step reads at most one block. Raises `PathUnknown` if the start place does not exist.
        """
        seen: set[Cid] = set()
        yield from self._descend(seen)
        while self._levels:
            level = self._levels[-1]
            if level.at >= len(level.links):
                self._levels.pop()
                if self._levels:
                    self._levels[-1].at += 1
                continue
            link = level.links[level.at]
            name = _entry_name(link, level.message)
            if name is not None:
                level.at += 1
                yield DirectoryEntry(name, link.cid, link.size)
            elif link.cid in seen:
                level.at += 1
            else:
                yield self._open(link.cid, seen)

    def _descend(self, seen: set[Cid]) -> Iterator[Cid]:
        """Open the nodes from the root down to the start place."""
        cid = self._cid
        for depth, at in enumerate(self._start, 1):
            yield self._open(cid, seen)
            level = self._levels[-1]
            level.at = at
            if depth == len(self._start):
                return
            link = level.links[at] if at < len(level.links) else None
            if link is None or _entry_name(link, level.message) is not None:
                raise PathUnknown(f"no such place in the directory {self._cid}")
            cid = link.cid

    def _open(self, cid: Cid, seen: set[Cid]) -> Cid:
        node, message = _directory(cid, self._find)
        width = _width(message)
        if self._levels:
            if message.kind == NodeKind.DIRECTORY:
                raise DagPbMalformed("a malformed shard of a directory")
            width += self._levels[-1].width
            if width > _HASH_BITS:
                raise DagPbMalformed(_TOO_DEEP)
        seen.add(cid)
        self._levels.append(_Level(message, node.links, width))
        return cid


def _width(message: UnixFsNode) -> int:
    """Return the number of bits of a name's hash that a node uses."""
    return 0 if message.kind == NodeKind.DIRECTORY else message.fanout.bit_length() - 1
