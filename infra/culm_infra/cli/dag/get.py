"""``culm dag get``: a file, a directory or a value out of the shards of a folder.

The author of a DAG chose its names, so every path is created here and none is followed: a file, directory or
link that exists is never written through. Symbolic links are created after everything else.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Final

import typer

from culm_infra.cli.dag.folder import DagFolderFlags, open_folder, parse_path
from culm_infra.cli.kit.new_paths import new_path
from culm_infra.cli.kit.output import EXIT_DEGRADED, Results, counting, emit_json, safe, say
from culm_infra.errors import InfraError
from culm_models.dag.blocks.cid import DAG_PB, RAW, Cid
from culm_models.dag.blocks.dag_json import encode_dag_json, to_dag_json
from culm_models.dag.paths.resolve import ContentKind, PathEnd, resolve_path
from culm_models.dag.unixfs.directories import list_directory
from culm_models.dag.unixfs.files import file_size, read_file
from culm_models.dag.unixfs.message import symlink_target
from culm_models.dag.walk.reach import FindBlock, block_of

if TYPE_CHECKING:
    from culm_connectors.dag.store.folder import DagFolder

OnBytes = Callable[[int], None]

# Errors of a file system that cannot hold a name: it is too long, has unsupported bytes or an unsupported
# kind, or differs from another name only in case.
_UNWRITABLE: Final = frozenset(
    {errno.EEXIST, errno.EILSEQ, errno.EINVAL, errno.ENAMETOOLONG, errno.EOPNOTSUPP, errno.EPERM}
)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A directory entry that was not written, with everything below it."""

    path: str
    """Path below the directory that was written."""
    reason: str


def file_pieces(cid: Cid, find: FindBlock) -> Iterator[bytes]:
    """Return the bytes of a file; for a block of another codec, the block."""
    return read_file(cid, find) if cid.codec in (DAG_PB, RAW) else iter([block_of(cid, find)])


def write_file(cid: Cid, path: Path, find: FindBlock, on_bytes: OnBytes) -> None:
    """Create a file."""
    with path.open("xb") as file:
        _fill(file, cid, find, on_bytes)


def write_directory(root: Cid, tree: Path, find: FindBlock, on_bytes: OnBytes) -> list[LeftOut]:
    """Create a directory with everything below it. Returns the entries that the disk cannot or must not hold.

    Raises `InfraError` for a name that no directory entry can have. Nothing recurses, since the author of the
    DAG chose its depth.
    """
    left_out: list[LeftOut] = []
    links: list[tuple[tuple[str, ...], bytes]] = []
    waiting: list[tuple[Cid, tuple[str, ...]]] = [(root, ())]
    tree.mkdir()
    while waiting:
        directory, relative = waiting.pop()
        names: set[str] = set()
        for entry in list_directory(directory, find):
            _check_name(directory, entry.name)
            inside = (*relative, entry.name)
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
    # All are checked before the first link exists: until then, every directory in the tree is a real
    # directory.
    inside = [_is_inside(tree, relative[:-1], target) for relative, target in links]
    for (relative, target), is_inside in zip(links, inside, strict=True):
        name = "/".join(relative)
        if not is_inside:
            left_out.append(LeftOut(name, f"the symbolic link leaves the directory: {os.fsdecode(target)}"))
            continue
        try:
            tree.joinpath(*relative).symlink_to(os.fsdecode(target))
        except OSError as error:
            left_out.append(LeftOut(name, _reason(error)))
    return left_out


def _is_inside(tree: Path, folder: tuple[str, ...], target: bytes) -> bool:
    """Whether a link in a folder of a tree stays in the tree, wherever the other links lead.

    `..` counts as the parent of a directory that is in the tree. After any other name it is not resolved,
    since the name may be a link or may not exist.
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
    """Return why the disk cannot hold an entry. Raises the error if it concerns more than this entry."""
    if error.errno not in _UNWRITABLE:
        raise error
    return error.strerror or str(error)


_FILES: Final = ("file", "raw")


def get(
    path: Annotated[str, typer.Argument(metavar="CID[/PATH]", help="What to get.")],
    *,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="PATH",
            allow_dash=True,
            help="A file, or a new directory; - is standard output, the default.",
        ),
    ] = None,
    flags: DagFolderFlags,
    results: Results,
) -> None:
    """Write out a file or a directory, whose blocks were checked on arrival; values are written as DAG-JSON.

    The output appears under its name once it is complete. An existing file is replaced; a directory must not
    exist. Symbolic links are restored if they stay inside the directory. Exit status 3: some entries were
    left out, each with its reason. With --json, the content is described; it is written only if -o names a
    file or a directory.

    Example: `culm dag get bafy…/index.html`; `culm dag get bafy… -o website`; `culm dag get bafy… --json`
    """
    left_out: list[LeftOut] = []
    if str(output) == "-":
        if results.json:
            raise typer.BadParameter("the content would be on standard output, too", param_hint="--json")
        output = None
    with open_folder(flags.path) as store, counting("writing") as count:
        root, segments = parse_path(path)
        end = resolve_path(root, segments, store.block)
        row = _describe(store, end) if results.json else {}
        if results.json and output is None:
            emit_json(row)
            return
        if end.kind is ContentKind.FILE:
            count(total=file_size(end.cid, store.block))
        if output is None:
            if end.kind is ContentKind.DIRECTORY:
                raise typer.BadParameter(
                    f"{path} is a directory: name a new one by -o", param_hint="--output"
                )
            _print(store, end)
            return
        with new_path(output, replaces_file=end.kind is not ContentKind.DIRECTORY) as fresh:
            if end.kind is ContentKind.DIRECTORY:
                left_out = write_directory(end.cid, fresh, store.block, lambda size: count(advance=size))
            elif end.kind in _FILES:
                write_file(end.cid, fresh, store.block, lambda size: count(advance=size))
            else:
                fresh.write_bytes(_text_of(end))
    if results.json:
        emit_json({**row, "left_out": [[entry.path, entry.reason] for entry in left_out]})
    else:
        say(f"written to {safe(output)}")
        for entry in left_out:
            say(f"[yellow]{safe(entry.path)} is left out[/]: {safe(entry.reason)}")
    if left_out:
        raise typer.Exit(EXIT_DEGRADED)


def _print(store: DagFolder, end: PathEnd) -> None:

    pieces = file_pieces(end.cid, store.block) if end.kind in _FILES else (_text_of(end), b"\n")
    for piece in pieces:
        sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


def _text_of(end: PathEnd) -> bytes:
    """Return the target of a symbolic link, or a value as DAG-JSON."""
    return symlink_target(end.block) if end.kind == "symlink" else encode_dag_json(end.value)


def _describe(store: DagFolder, end: PathEnd) -> dict[str, Any]:
    """Describe the content at the end of a path."""
    row: dict[str, Any] = {"cid": end.cid.text, "kind": end.kind.value}
    match end.kind:
        case ContentKind.FILE:
            row["bytes"] = file_size(end.cid, store.block)
        case ContentKind.RAW:
            row["bytes"] = len(end.block)
        case ContentKind.DIRECTORY:
            row["entries"] = [[entry.name, entry.cid.text] for entry in list_directory(end.cid, store.block)]
        case ContentKind.SYMLINK:
            row["target"] = end.value
        case ContentKind.VALUE:
            row["value"] = to_dag_json(end.value)
    return row
