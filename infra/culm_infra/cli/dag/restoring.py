"""Files and directories of UnixFS on the disk, each under a path that nothing else uses.

Whoever made a DAG chose its names, so every path is created here and none is followed: a file, directory or
link that exists is never written through. Symbolic links are created after everything else.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from culm_infra.errors import InfraError
from culm_models.dag.blocks.cid import DAG_PB, RAW, Cid
from culm_models.dag.paths.resolve import ContentKind, resolve_path
from culm_models.dag.unixfs.directories import list_directory
from culm_models.dag.unixfs.files import read_file
from culm_models.dag.unixfs.message import symlink_target
from culm_models.dag.walk.reach import FindBlock, block_of

OnBytes = Callable[[int], None]

# A file system that cannot hold a name says one of these: the name is too long, has bytes or a kind that it
# does not know, or is another name's in another case.
_UNWRITABLE: Final = frozenset(
    {errno.EEXIST, errno.EILSEQ, errno.EINVAL, errno.ENAMETOOLONG, errno.EOPNOTSUPP, errno.EPERM}
)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An entry of a directory that is not on the disk, nor is anything below it."""

    path: str
    """Below the directory that was written."""
    reason: str


def file_pieces(cid: Cid, find: FindBlock) -> Iterator[bytes]:
    """The bytes of a file; of a block of another codec, the block."""
    return read_file(cid, find) if cid.codec in (DAG_PB, RAW) else iter([block_of(cid, find)])


def write_file(cid: Cid, path: Path, find: FindBlock, on_bytes: OnBytes) -> None:
    """Create a file."""
    with path.open("xb") as file:
        _fill(file, cid, find, on_bytes)


def write_directory(root: Cid, tree: Path, find: FindBlock, on_bytes: OnBytes) -> list[LeftOut]:
    """Create a directory with all that is below it; returns what the disk cannot hold or must not.

    Raises `InfraError` for a name that is not one of a directory's entries anywhere. Nothing recurses, since
    the author of the DAG chose its depth.
    """
    left_out: list[LeftOut] = []
    links: list[tuple[tuple[str, ...], bytes]] = []
    waiting: list[tuple[Cid, tuple[str, ...]]] = [(root, ())]
    tree.mkdir()
    while waiting:
        directory, place = waiting.pop()
        names: set[str] = set()
        for entry in list_directory(directory, find):
            _check_name(directory, entry.name)
            inside = (*place, entry.name)
            if entry.name in names:
                # As in a path, the first entry of a name counts.
                left_out.append(LeftOut("/".join(inside), "another entry has this name"))
                continue
            names.add(entry.name)
            end = resolve_path(entry.cid, (), find)
            path = tree.joinpath(*inside)
            try:
                if end.kind is ContentKind.DIRECTORY:
                    path.mkdir()
                    waiting.append((entry.cid, inside))
                    continue
                if end.kind is ContentKind.SYMLINK:
                    links.append((inside, symlink_target(end.block)))
                    continue
                file = path.open("xb")
            except OSError as error:
                left_out.append(LeftOut("/".join(inside), _reason(error)))
                continue
            with file:
                _fill(file, entry.cid, find, on_bytes)
    return left_out + _write_links(tree, links)


def _check_name(directory: Cid, name: str) -> None:
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise InfraError(f"{directory} has an entry with a name that no file has: {name[:100]!r}")


def _fill(file: BinaryIO, cid: Cid, find: FindBlock, on_bytes: OnBytes) -> None:
    for piece in file_pieces(cid, find):
        file.write(piece)
        on_bytes(len(piece))


def _write_links(tree: Path, links: list[tuple[tuple[str, ...], bytes]]) -> list[LeftOut]:
    """Create symbolic links whose targets are inside the tree."""
    left_out = []
    # All are looked at before the first one exists: until then, every directory in the tree is a real one.
    inside = [_is_inside(tree, place[:-1], target) for place, target in links]
    for (place, target), is_inside in zip(links, inside, strict=True):
        name = "/".join(place)
        if not is_inside:
            left_out.append(LeftOut(name, f"the symbolic link leaves the directory: {os.fsdecode(target)}"))
            continue
        try:
            tree.joinpath(*place).symlink_to(os.fsdecode(target))
        except OSError as error:
            left_out.append(LeftOut(name, _reason(error)))
    return left_out


def _is_inside(tree: Path, folder: tuple[str, ...], target: bytes) -> bool:
    """Whether a link in a folder of a tree stays in the tree, wherever the other links lead.

    `..` counts as the parent of a directory that is in the tree; behind a name that may be a link, or of
    nothing, its meaning is open.
    """
    if not target or target.startswith(b"/") or b"\0" in target:
        return False
    here = list(folder)
    for part in os.fsdecode(target).split("/"):
        if part in ("", "."):
            continue
        if part != "..":
            here.append(part)
        elif here and os.path.isdir(tree.joinpath(*here)):  # noqa: PTH112
            here.pop()
        else:
            return False
    return True


def _reason(error: OSError) -> str:
    """Why the disk cannot hold an entry. Raises the error if it is about more than this entry."""
    if error.errno not in _UNWRITABLE:
        raise error
    return error.strerror or str(error)
