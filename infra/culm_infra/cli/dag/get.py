"""``culm dag get``: a file, a directory or a value out of the shards of a folder."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from culm_infra.cli import options
from culm_infra.cli.dag.folder import DEFAULT_FOLDER, Folder, open_folder
from culm_infra.cli.output import emit_json, progress, say
from culm_infra.errors import InfraError

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from culm_connectors.dag.store.folder import DagFolder
    from culm_models.dag.blocks.cid import Cid
    from culm_models.dag.paths.resolve import PathEnd


def get(
    path: Annotated[str, typer.Argument(metavar="CID[/PATH]", help="What to get.")],
    output: Annotated[
        Path | None, typer.Argument(metavar="[FILE|DIR]", help="Where to; by default standard output.")
    ] = None,
    *,
    folder: Folder = DEFAULT_FOLDER,
    json: options.Json = False,
) -> None:
    """Write out a file or a directory, every block of it checked when it came; values as DAG-JSON.

    With --json it is told what stands there; it is written where a FILE or DIR is named.

    Example: `culm dag get bafy…/index.html`; `culm dag get bafy… website`; `culm dag get bafy… --json`
    """
    from culm_models.dag.blocks.dag_json import encode_dag_json
    from culm_models.dag.errors import DagError
    from culm_models.dag.paths.resolve import ContentKind, parse_path, resolve_path
    from culm_models.dag.unixfs.files import file_size

    with open_folder(folder) as store, progress() as bars:
        try:
            root, segments = parse_path(path)
        except DagError as error:
            raise typer.BadParameter(str(error)) from None
        end = resolve_path(root, segments, store.block)
        if json:
            emit_json(_describe(store, end))
            if output is None:
                return
        bar = bars.add_task("writing", total=None)
        if end.kind is ContentKind.DIRECTORY:
            if output is None:
                raise typer.BadParameter(f"{path} is a directory: name the one to write it to")
            _write_directory(store, end.cid, output, bars, bar)
        elif end.kind in (ContentKind.FILE, ContentKind.RAW):
            if end.kind is ContentKind.FILE:
                bars.update(bar, total=file_size(end.cid, store.block))
            _write_file(store, end.cid, output, bars, bar)
        else:
            value = end.value.encode() if end.kind is ContentKind.SYMLINK else encode_dag_json(end.value)
            if output is None:
                sys.stdout.buffer.write(value + b"\n")
            else:
                output.write_bytes(value)
    if output is not None and not json:
        say(f"written to {output}")


def _describe(store: DagFolder, end: PathEnd) -> dict[str, Any]:
    """What stands at the end of a path."""
    from culm_models.dag.blocks.dag_json import to_dag_json
    from culm_models.dag.paths.resolve import ContentKind
    from culm_models.dag.unixfs.directories import list_directory
    from culm_models.dag.unixfs.files import file_size

    found: dict[str, Any] = {"cid": end.cid.text, "kind": end.kind.value}
    match end.kind:
        case ContentKind.FILE:
            found["bytes"] = file_size(end.cid, store.block)
        case ContentKind.RAW:
            found["bytes"] = len(end.block)
        case ContentKind.DIRECTORY:
            found["entries"] = [[one.name, one.cid.text] for one in list_directory(end.cid, store.block)]
        case ContentKind.SYMLINK:
            found["target"] = end.value
        case ContentKind.VALUE:
            found["value"] = to_dag_json(end.value)
    return found


def _write_file(store: DagFolder, cid: Cid, output: Path | None, bars: Progress, bar: TaskID) -> None:
    from culm_models.dag.blocks.cid import DAG_PB, RAW
    from culm_models.dag.unixfs.files import read_file
    from culm_models.dag.walk.reach import block_of

    pieces = read_file(cid, store.block) if cid.codec in (DAG_PB, RAW) else iter([block_of(cid, store.block)])
    if output is None:
        for piece in pieces:
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
        return
    part = output.with_name(f"{output.name}.part")
    with part.open("wb") as file:
        for piece in pieces:
            file.write(piece)
            bars.advance(bar, len(piece))
    part.replace(output)


def _write_directory(store: DagFolder, cid: Cid, output: Path, bars: Progress, bar: TaskID) -> None:
    """All that is below a directory; without recursion, since whoever made it chose its depth."""
    from culm_models.dag.paths.resolve import ContentKind, resolve_path
    from culm_models.dag.unixfs.directories import list_directory

    waiting = [(cid, output)]
    while waiting:
        one, place = waiting.pop()
        place.mkdir(parents=True, exist_ok=True)
        for entry in list_directory(one, store.block):
            if entry.name in ("", ".", "..") or "/" in entry.name or "\0" in entry.name:
                raise InfraError(f"{one} has an entry whose name is none on a disk: {entry.name[:100]!r}")
            end = resolve_path(entry.cid, (), store.block)
            target = place / entry.name
            if target.is_symlink():
                raise InfraError(f"{target} is a symbolic link: nothing is written through it")
            if end.kind is ContentKind.DIRECTORY:
                waiting.append((entry.cid, target))
            elif end.kind is ContentKind.SYMLINK:
                say(f"[yellow]{target} would be a symbolic link and is left out[/]")
            else:
                _write_file(store, entry.cid, target, bars, bar)
