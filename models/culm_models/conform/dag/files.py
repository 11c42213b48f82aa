"""Operations on UnixFS and paths (reference 3.6)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from culm_models.conform.arguments import ArgumentError, Arguments, as_octets
from culm_models.conform.dag.arguments import block_to_json, blocks_of
from culm_models.conform.operation import ConformOperation, Machines
from culm_models.dag.blocks.cid import Cid
from culm_models.dag.blocks.dag_json import to_dag_json
from culm_models.dag.bounds import DEFAULT_BOUNDS
from culm_models.dag.errors import BlockTooLarge
from culm_models.dag.paths.resolve import ContentKind, parse_path, resolve_path
from culm_models.dag.unixfs.directories import list_directory
from culm_models.dag.unixfs.files import file_size, read_file
from culm_models.dag.unixfs.importing import (
    DEFAULT_PROFILE,
    PROFILES,
    Symlink,
    import_bytes,
    import_directory,
)

_SEGMENTS_MAX: Final = 100
_WIDTH_MAX: Final = 1 << 16


def _add(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    profile = arguments.word("profile", PROFILES, default=DEFAULT_PROFILE)
    chunk_size = arguments.integer(
        "chunk_size", min_value=1, max_value=DEFAULT_BOUNDS.block, default=profile.chunk_size
    )
    width = arguments.integer("width", min_value=2, max_value=_WIDTH_MAX, default=profile.width)
    directory_max = arguments.integer("directory_max", min_value=1, default=profile.directory_max)
    profile = replace(profile, chunk_size=chunk_size, width=width, directory_max=directory_max)
    blocks: dict[Cid, bytes] = {}
    if arguments.has("files"):
        tree = _tree(arguments.items("files"), arguments.items("links", []))
        root = import_directory(tree, profile, blocks.__setitem__)
    else:
        root = import_bytes(arguments.octets("bytes"), profile, blocks.__setitem__)
    return {"root": root.cid.text, "blocks": [block_to_json(cid, blocks[cid]) for cid in sorted(blocks)]}


def _tree(files: list[Any], links: list[Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for kind, row in [*((bytes, row) for row in files), *((Symlink, row) for row in links)]:
        if not isinstance(row, list) or len(row) != 2 or not isinstance(row[0], str):
            raise ArgumentError("a file or a link is not [path, bytes]")
        *folders, name = row[0].split("/")
        if len(folders) >= _SEGMENTS_MAX or {"", ".", ".."} & {*folders, name}:
            raise ArgumentError("a path with segments that no file has, or with too many")
        at = tree
        for folder in folders:
            at = at.setdefault(folder, {})
            if not isinstance(at, dict):
                raise ArgumentError(f"{row[0][:100]} is below a file")
        if name in at:
            raise ArgumentError(f"{row[0][:100]} is there twice")
        at[name] = kind(as_octets(row[1], "bytes"))
    return tree


def _path(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    root, segments = parse_path(arguments.text("path"))
    find = dict(blocks_of(arguments, "blocks")).get
    end = resolve_path(root, segments, find)
    answer: dict[str, Any] = {"cid": end.cid.text, "kind": end.kind.value}
    match end.kind:
        case ContentKind.FILE:
            size = file_size(end.cid, find)
            if size > DEFAULT_BOUNDS.car:
                raise BlockTooLarge(f"a file of {size} bytes does not fit into one line")
            answer["bytes"] = b"".join(read_file(end.cid, find)).hex()
        case ContentKind.RAW:
            answer["bytes"] = end.block.hex()
        case ContentKind.DIRECTORY:
            answer["entries"] = [[entry.name, entry.cid.text] for entry in list_directory(end.cid, find)]
        case ContentKind.SYMLINK:
            answer["target"] = end.value
        case ContentKind.VALUE:
            answer["value"] = to_dag_json(end.value)
    return answer


OPERATIONS: Final = (
    ConformOperation(
        "dag.path",
        "path (CID/segment/...), blocks ([{cid, bytes}])",
        "cid, kind: file or raw (bytes), directory (entries: [[name, cid]]), symlink (target), value (value)",
        _path,
    ),
    ConformOperation(
        "unixfs.add",
        "bytes, or files ([[path, bytes]]) and links? ([[path, target]], both in hex);"
        " profile? (ipfs-cid-v1 or unixfs-v1-2025), chunk_size?, width?,"
        " directory_max? (bytes over which a directory is sharded)",
        "root, blocks ([{cid, bytes}])",
        _add,
    ),
)
