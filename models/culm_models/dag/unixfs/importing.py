"""Import of files and directories by a named profile (R30): the same file has the same CID everywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import mmh3

from culm_models.dag.blocks.cid import DAG_PB, RAW, Cid, cid_of
from culm_models.dag.blocks.dag_pb import PbLink, PbNode, encode_dag_pb
from culm_models.dag.blocks.protobuf import write_number, write_octets
from culm_models.dag.errors import DirectoryTooLarge
from culm_models.dag.unixfs.message import HAMT_HASH, NodeKind

FANOUT: Final = 256
_HASH_BITS: Final = 64
_LEVEL_BITS: Final = 8

PutNode = Callable[[PbNode], PbLink]
"""Stores a node. Returns a link to it, whose size is that of the node and all blocks below it, in bytes."""
_TYPE, _DATA, _FILE_SIZE, _BLOCK_SIZE = 1, 2, 3, 4


def write_shards(entries: Iterable[PbLink], put: PutNode) -> PbLink:
    """Write the nodes of a sharded directory. They depend on its entries, not on the order of the entries.

    Raises `DirectoryTooLarge` if two names have the same hash, so that no level tells them apart.
    """
    hashed = [(mmh3.hash64((link.name or "").encode(), signed=False)[0], link) for link in entries]
    return _write(hashed, _HASH_BITS - _LEVEL_BITS, put)


def _write(entries: list[tuple[int, PbLink]], shift: int, put: PutNode) -> PbLink:
    """Write a node and the nodes below it. `shift` is the lowest bit of a hash that this level uses."""
    buckets: dict[int, list[tuple[int, PbLink]]] = {}
    for entry in entries:
        buckets.setdefault(entry[0] >> shift & FANOUT - 1, []).append(entry)
    links = []
    bits = 0
    for bucket in sorted(buckets):
        bits |= 1 << bucket
        first, *others = buckets[bucket]
        if not others:
            _, link = first
            links.append(PbLink(link.cid, f"{bucket:02X}{link.name}", link.size))
            continue
        if not shift:
            names = ", ".join(repr((link.name or "")[:40]) for _, link in buckets[bucket][:2])
            raise DirectoryTooLarge(f"a directory with names of the same hash: {names}")
        below = _write(buckets[bucket], shift - _LEVEL_BITS, put)
        links.append(PbLink(below.cid, f"{bucket:02X}", below.size))
    data = write_number(1, NodeKind.SHARDED_DIRECTORY)
    data += write_octets(2, bits.to_bytes((bits.bit_length() + 7) // 8, "big"))
    data += write_number(5, HAMT_HASH) + write_number(6, FANOUT)
    return put(PbNode(tuple(links), data))


@dataclass(frozen=True, slots=True)
class ImportProfile:
    """The shape of a file: chunks of `chunk_size` bytes as raw leaves, under nodes of up to `width` links.

    A directory over `directory_max` bytes is sharded over many nodes (HAMT).
    """

    chunk_size: int
    width: int
    directory_max: int = 262_144
    counts_blocks: bool = False
    """Whether a directory's size is that of its block; otherwise it is that of its names and CIDs."""


PROFILES: Final = {
    "ipfs-cid-v1": ImportProfile(262_144, 174),
    "unixfs-v1-2025": ImportProfile(1_048_576, 1_024, counts_blocks=True),
}
DEFAULT_PROFILE: Final = "ipfs-cid-v1"

PutBlock = Callable[[Cid, bytes], None]
FileChunks: TypeAlias = Callable[[int], Iterable[bytes]]
"""Returns a file in chunks of a size in bytes, so that it need not be in memory."""


@dataclass(frozen=True, slots=True)
class Symlink:
    """A symbolic link. It is stored as such and not followed."""

    target: bytes


FileTree: TypeAlias = Mapping[str, "bytes | FileChunks | Symlink | FileTree"]
"""Names with their content: the bytes or chunks of a file, a symbolic link, or the tree of a directory."""


@dataclass(frozen=True, slots=True)
class ImportedNode:
    """An imported file, part of a file, or directory, as its parent links to it."""

    cid: Cid
    content: int
    """Size of the file's content in bytes; 0 for directories and symbolic links."""
    total: int
    """Tsize: the total size of its own block and all blocks below, in bytes."""

    def as_link(self, name: str) -> PbLink:
        """Return the link with which a parent names it."""
        return PbLink(self.cid, name, self.total)


def import_file(chunks: Iterable[bytes], profile: ImportProfile, put: PutBlock) -> ImportedNode:
    """Import a file from its chunks, which all but the last have the profile's size.

    A single chunk becomes a raw leaf without a node above it. Nodes are stored as soon as they are full, so
    that at most one node per level is in memory.
    """
    levels: list[list[ImportedNode]] = [[]]
    for chunk in chunks:
        _push(levels, 0, _leaf(chunk, put), profile, put)
    if levels == [[]]:
        return _leaf(b"", put)
    at = 0
    while at < len(levels) - 1 or len(levels[at]) > 1:
        if levels[at]:
            # Even a single child gets a node above it, so that all leaves have the same depth.
            _push(levels, at + 1, _node(levels[at], put), profile, put)
        at += 1
    return levels[at][0]


def _push(
    levels: list[list[ImportedNode]], at: int, child: ImportedNode, profile: ImportProfile, put: PutBlock
) -> None:
    """Add a child to its level. A full level becomes a node only when a further child arrives."""
    while True:
        if at == len(levels):
            levels.append([])
        if len(levels[at]) < profile.width:
            levels[at].append(child)
            return
        parent, levels[at] = _node(levels[at], put), [child]
        at, child = at + 1, parent


def import_bytes(data: bytes, profile: ImportProfile, put: PutBlock) -> ImportedNode:
    """Import a file that is in memory."""
    size = profile.chunk_size
    return import_file((data[at : at + size] for at in range(0, len(data), size)), profile, put)


def import_directory(tree: FileTree, profile: ImportProfile, put: PutBlock) -> ImportedNode:
    """Import a directory with its content. Links are sorted by the names, or in a HAMT by their hashes.

    Raises `DirectoryTooLarge` if a HAMT is needed and two names have the same hash.
    """
    links = []
    for name in sorted(tree):
        inner = tree[name]
        if isinstance(inner, bytes):
            entry = import_bytes(inner, profile, put)
        elif isinstance(inner, Symlink):
            entry = import_symlink(inner, put)
        elif isinstance(inner, Mapping):
            entry = import_directory(inner, profile, put)
        else:
            entry = import_file(inner(profile.chunk_size), profile, put)
        links.append(entry.as_link(name))
    node = PbNode(tuple(links), write_number(_TYPE, NodeKind.DIRECTORY))
    if profile.counts_blocks:
        size = len(encode_dag_pb(node))
    else:
        size = sum(len((link.name or "").encode()) + len(link.cid.raw) for link in links)
    if size <= profile.directory_max:
        return _put(node, 0, put)
    root = write_shards(links, lambda shard: _put(shard, 0, put).as_link(""))
    return ImportedNode(root.cid, 0, root.size or 0)


def import_symlink(link: Symlink, put: PutBlock) -> ImportedNode:
    """Import a symbolic link."""
    return _put(PbNode((), write_number(_TYPE, NodeKind.SYMLINK) + write_octets(_DATA, link.target)), 0, put)


def _leaf(data: bytes, put: PutBlock) -> ImportedNode:
    cid = cid_of(RAW, data)
    put(cid, data)
    return ImportedNode(cid, len(data), len(data))


def _node(children: list[ImportedNode], put: PutBlock) -> ImportedNode:
    content = sum(child.content for child in children)
    data = write_number(_TYPE, NodeKind.FILE) + write_number(_FILE_SIZE, content)
    data += b"".join(write_number(_BLOCK_SIZE, child.content) for child in children)
    return _put(PbNode(tuple(child.as_link("") for child in children), data), content, put)


def _put(node: PbNode, content: int, put: PutBlock) -> ImportedNode:
    block = encode_dag_pb(node)
    cid = cid_of(DAG_PB, block)
    put(cid, block)
    return ImportedNode(cid, content, len(block) + sum(link.size or 0 for link in node.links))
