"""``culm dag get``: a file, a directory or a value out of the shards of a folder."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from culm_infra.cli.dag.folder import DEFAULT_FOLDER, Folder, open_folder, parse_path
from culm_infra.cli.dag.restoring import LeftOut, file_pieces, write_directory, write_file
from culm_infra.cli.new_paths import new_path
from culm_infra.cli.output import EXIT_DEGRADED, counting, emit_json, safe, say
from culm_infra.cli.results import Results
from culm_models.dag.blocks.dag_json import encode_dag_json, to_dag_json
from culm_models.dag.paths.resolve import ContentKind, PathEnd, resolve_path
from culm_models.dag.unixfs.directories import list_directory
from culm_models.dag.unixfs.files import file_size
from culm_models.dag.unixfs.message import symlink_target

if TYPE_CHECKING:
    from culm_connectors.dag.store.folder import DagFolder

_FILES: Final = ("file", "raw")


def get(
    path: Annotated[str, typer.Argument(metavar="CID[/PATH]", help="What to get.")],
    output: Annotated[
        Path | None, typer.Argument(metavar="[FILE|DIR]", help="Where to; by default standard output.")
    ] = None,
    *,
    folder: Folder = DEFAULT_FOLDER,
    results: Results,
) -> None:
    """Write out a file or a directory, every block of it checked when it came; values as DAG-JSON.

    It appears under its name when it is complete. A FILE that exists is replaced; a DIR must not exist.
    Symbolic links are restored if they stay inside the directory. Exit status 3: some entries were left out,
    each with its reason. With --json, what stands there is described; it is written if FILE or DIR is named.

    Example: `culm dag get bafy…/index.html`; `culm dag get bafy… website`; `culm dag get bafy… --json`
    """
    left_out: list[LeftOut] = []
    with open_folder(folder) as store, counting("writing") as count:
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
                raise typer.BadParameter(f"{path} is a directory: name the one to write it to")
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
    """The target of a symbolic link, or a value as DAG-JSON."""
    return symlink_target(end.block) if end.kind == "symlink" else encode_dag_json(end.value)


def _describe(store: DagFolder, end: PathEnd) -> dict[str, Any]:
    """What stands at the end of a path."""
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
