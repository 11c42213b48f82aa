"""Directories (3.6): in one node, or spread over many by the hashes of their names (HAMT)."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Final

import mmh3

from culm_models.dag.blocks.cid import DAG_PB, Cid
from culm_models.dag.blocks.dag_pb import PbLink, PbNode, decode_dag_pb
from culm_models.dag.errors import DagPbMalformed
from culm_models.dag.unixfs.message import NodeKind, UnixFsNode, read_unixfs
from culm_models.dag.walk.reach import FindBlock, block_of

_HASH_BITS: Final = 64
_TOO_DEEP: Final = "a sharded directory deeper than its hashes"
_DIRECTORIES: Final = (NodeKind.DIRECTORY, NodeKind.SHARDED_DIRECTORY)


@dataclass(frozen=True, slots=True)
class DirectoryEntry:
    """One name."""

    name: str
    cid: Cid
    size: int | None
    """Tsize: the bytes of all blocks below."""


def list_directory(cid: Cid, find: FindBlock) -> Iterator[DirectoryEntry]:
    """The entries of a directory as they are stored: those of a further shard where it is linked to."""
    for one in directory_steps(cid, find):
        if isinstance(one, DirectoryEntry):
            yield one


def directory_blocks(cid: Cid, find: FindBlock) -> Iterator[Cid]:
    """The blocks that hold the names of a directory, each once."""
    for one in directory_steps(cid, find):
        if isinstance(one, Cid):
            yield one


def entry_steps(cid: Cid, name: str, find: FindBlock) -> Generator[None, None, tuple[Cid | None, list[Cid]]]:
    """What a name in a directory links to, if there is such a name; and the blocks that say so, in order.

    One step reads one block.
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
                raise DagPbMalformed("a shard of a directory that is none")
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
    """Whether a node is a directory of either kind."""
    return message.kind in _DIRECTORIES


def _named(node: PbNode, name: str) -> Cid | None:
    # Of two entries of one name, the first counts.
    return next((link.cid for link in node.links if link.name == name), None)


def _prefix(place: int, fanout: int) -> str:
    return f"{place:0{_digits(fanout)}X}"


def _digits(fanout: int) -> int:
    return len(f"{fanout - 1:X}")


def _entry_name(link: PbLink, message: UnixFsNode) -> str | None:
    """The name of an entry; None of a link to a further shard."""
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


def directory_steps(cid: Cid, find: FindBlock) -> Iterator[Cid | DirectoryEntry]:
    """The nodes of a directory, each once, and its entries, those of a shard in its place.

    One step reads one block at most.
    """
    seen: set[Cid] = {cid}
    node, message = _directory(cid, find)
    yield cid
    levels = [(message, iter(node.links), _width(message))]
    while levels:
        message, links, width = levels[-1]
        link = next(links, None)
        if link is None:
            levels.pop()
            continue
        name = _entry_name(link, message)
        if name is not None:
            yield DirectoryEntry(name, link.cid, link.size)
        elif link.cid not in seen:
            seen.add(link.cid)
            node, message = _directory(link.cid, find)
            if message.kind == NodeKind.DIRECTORY:
                raise DagPbMalformed("a shard of a directory that is none")
            width += _width(message)
            if width > _HASH_BITS:
                raise DagPbMalformed(_TOO_DEEP)
            yield link.cid
            levels.append((message, iter(node.links), width))


def _width(message: UnixFsNode) -> int:
    """How many bits of a name's hash a node takes."""
    return 0 if message.kind == NodeKind.DIRECTORY else message.fanout.bit_length() - 1
