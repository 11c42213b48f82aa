"""``culm dag put`` and ``join``: append a DAG in shards to a space; join its heads.

Directories on the disk are read as trees; memory holds one chunk at a time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from culm_infra.cli.dag.folder import Space, ValidatingFolderFlags, count_of, now_s, parse_key, space_of
from culm_infra.cli.kit import options
from culm_infra.cli.kit.output import Results, progress, say
from culm_infra.errors import InfraError
from culm_models.dag.blocks.cid import DAG_CBOR, DAG_JSON, RAW, Cid, cid_of
from culm_models.dag.blocks.dag_cbor import decode_dag_cbor
from culm_models.dag.blocks.dag_json import decode_dag_json
from culm_models.dag.bounds import DEFAULT_BOUNDS
from culm_models.dag.sharding import cut_dag
from culm_models.dag.unixfs.importing import (
    PROFILES,
    FileChunks,
    FileTree,
    Symlink,
    import_directory,
    import_file,
)

if TYPE_CHECKING:
    from culm_connectors.dag.cars import BlockFile


class DiskTree(Mapping[str, "bytes | FileChunks | Symlink | FileTree"]):
    """A directory whose files are read as they are imported. Links are not followed; devices are refused.

    Names that begin with a dot count only with `hidden`, as in other tools that compute these CIDs.
    """

    def __init__(
        self, path: Path, on_bytes: Callable[[int], None] = lambda count: None, *, hidden: bool = False
    ) -> None:
        self._path = path
        self._on_bytes = on_bytes
        self._hidden = hidden

    def __getitem__(self, name: str) -> bytes | FileChunks | Symlink | FileTree:
        path = self._path / name
        if path.is_symlink():
            # `Path.readlink` would normalise the target.
            return Symlink(os.readlink(os.fsencode(path)))  # noqa: PTH115
        if path.is_dir():
            return DiskTree(path, self._on_bytes, hidden=self._hidden)
        return lambda size: chunks_of(path, size, self._on_bytes)

    def __iter__(self) -> Iterator[str]:
        for entry in os.scandir(self._path):
            if is_left_out(entry.name, hidden=self._hidden):
                continue
            if not (entry.is_symlink() or entry.is_dir() or entry.is_file()):
                raise InfraError(
                    f"{entry.path} is not a file, a directory or a symbolic link",
                    hint="leave it out of the folder",
                )
            if not _is_text(entry.name):
                raise InfraError(
                    f"{self._path} has an entry whose name is no text: {os.fsencode(entry.name)!r}",
                    hint="rename it",
                )
            yield entry.name

    def __len__(self) -> int:
        return sum(1 for _ in self)


def is_left_out(name: str, *, hidden: bool) -> bool:
    """Whether `put` leaves out an entry of a directory."""
    return name.startswith(".") and not hidden


def _is_text(name: str) -> bool:
    """Whether a name of the system is UTF-8; Python represents other bytes by lone surrogates."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def chunks_of(path: Path, size: int, on_bytes: Callable[[int], None]) -> Iterator[bytes]:
    """Yield a file in chunks; `on_bytes` receives the size of each chunk."""
    with path.open("rb") as file:
        while chunk := file.read(size):
            yield chunk
            on_bytes(len(chunk))


@dataclass(slots=True)
class TreeSize:
    """Size of a tree on the disk."""

    bytes: int = 0
    """Total of all files that are put, in bytes."""
    left_out: int = 0
    """Number of hidden entries; each includes everything below it."""


def size_below(path: Path, *, hidden: bool) -> TreeSize:
    """Return the size of a file, or of all files in a directory."""
    if path.is_file():
        return TreeSize(path.stat().st_size)
    size = TreeSize()
    for folder, folders, files in os.walk(path):
        for names in (folders, files):
            shown = [name for name in names if not is_left_out(name, hidden=hidden)]
            size.left_out += len(names) - len(shown)
            names[:] = shown
        paths = [Path(folder) / name for name in files]
        size.bytes += sum(path.lstat().st_size for path in paths if not path.is_symlink())
    return size


_PROFILES = ("ipfs-cid-v1", "unixfs-v1-2025")
_CODECS = ("unixfs", "raw", "dag-cbor", "dag-json")


def put(
    context: typer.Context,
    path: Annotated[Path, typer.Argument(metavar="FILE|DIR", exists=True, help="What to put.")],
    *,
    flags: ValidatingFolderFlags,
    space: Space = None,
    profile: Annotated[
        str,
        typer.Option(
            "--unixfs-profile",
            metavar="NAME",
            help="How files are cut: ipfs-cid-v1 or unixfs-v1-2025.",
            autocompletion=options.words(*_PROFILES),
        ),
    ] = "ipfs-cid-v1",
    codec: Annotated[
        str,
        typer.Option(
            "--codec",
            metavar="|".join(_CODECS),
            help="A file or a directory, or one block as it is.",
            autocompletion=options.words(*_CODECS),
        ),
    ] = "unixfs",
    hidden: Annotated[
        bool, typer.Option("--hidden", help="Entries of directories whose names begin with a dot, too.")
    ] = False,
    shard_size: Annotated[int, typer.Option(min=1_024, help="Bytes of a shard at most.")] = 4_194_304,
    per_append: Annotated[int, typer.Option(min=1, max=4_096, help="Shards of an append at most.")] = 4_096,
    results: Results,
) -> None:
    """Make a DAG of a file or a directory, cut it into shards, and append these to a space.

    The CID is the one that `ipfs add --cid-version 1` computes, which leaves hidden entries out. Symbolic
    links in a directory are stored and not followed. If the space has several heads, they are joined first.
    The default space is that of the folder's own key, which is created if it is missing; `culm dag publish`
    publishes the result.

    Example: `culm dag put film.mp4`; `culm dag put website --shard-size 1000000`;
    `culm dag put record.cbor --codec dag-cbor`; `culm dag put key.bin --codec raw`
    """
    from culm_connectors.dag.author import append_shards
    from culm_connectors.dag.cars import BlockFile
    from culm_connectors.edge.keyfile import load_or_make_key

    if profile not in _PROFILES:
        raise typer.BadParameter(
            f"{profile!r} is no profile: write {' or '.join(_PROFILES)}", param_hint="--unixfs-profile"
        )
    if codec not in _CODECS:
        raise typer.BadParameter(f"{codec!r} is none of {', '.join(_CODECS)}", param_hint="--codec")
    if codec != "unixfs" and not path.is_file():
        raise typer.BadParameter(f"{path} is no file: a directory is put as unixfs")
    if codec != "unixfs":
        options.refuse(context, ["profile"], f"{codec} is one block, which is not cut")
    if not path.is_dir():
        options.refuse(context, ["hidden"], "is about the entries of a directory")
    named = None if space is None else parse_key(space)
    below = size_below(path, hidden=hidden)
    size = below.bytes
    with flags.open(create=True) as store, BlockFile(flags.path) as blocks, progress() as bars:
        whose = named or load_or_make_key(flags.path).public_key
        bar = bars.add_task("reading", total=size)
        root = _import(path, codec, profile, hidden, blocks, lambda count: bars.advance(bar, count))
        bar = bars.add_task("cutting into shards", total=None)
        shards: list[Cid] = []
        for shard in cut_dag(root, blocks.find, shard_size, bounds=store.settings.verdict.bounds):
            store.add_shard(whose, shard.cid, shard.data)
            # Unreferenced shards do no harm, and a repeated run need not write these again.
            store.commit()
            shards.append(shard.cid)
            bars.advance(bar)
        origin = append_shards(store, whose, shards, now=now_s(), per_append=per_append)
        count = len(blocks)
    inside = f"{count_of(count, 'block')} and {count_of(len(shards), 'shard')}"
    results.one(
        {
            "cid": root.text,
            "space": whose,
            "origin": origin.text,
            "shard": shards[0].text,
            "shards": len(shards),
            "blocks": count,
            "bytes": size,
        },
        f"{root.text}  {count_of(size, 'byte')} in {inside}\norigin {origin.text}",
    )
    if below.left_out:
        entries = count_of(below.left_out, "hidden entry", "hidden entries")
        say(f"[yellow]{entries} left out (--hidden puts them, too)[/]")
    results.next(flags.command(f"culm dag publish {root.text}"))


def join(
    *,
    flags: ValidatingFolderFlags,
    space: Space = None,
    results: Results,
) -> None:
    """Join the heads of a space. Every replica with the same heads makes the same join, with the same CID.

    Example: `culm dag join`
    """
    from culm_connectors.dag.author import join_heads

    with flags.open() as store:
        cid = join_heads(store, space_of(space, flags.path), now=now_s())
    results.one({"join": cid.text}, cid.text)


def _import(
    path: Path,
    codec: str,
    profile: str,
    hidden: bool,
    blocks: BlockFile,
    on_bytes: Callable[[int], None],
) -> Cid:

    if codec == "unixfs":
        if path.is_dir():
            return import_directory(
                DiskTree(path, on_bytes, hidden=hidden), PROFILES[profile], blocks.put
            ).cid
        chunk_size = PROFILES[profile].chunk_size
        return import_file(chunks_of(path, chunk_size, on_bytes), PROFILES[profile], blocks.put).cid
    if path.stat().st_size > DEFAULT_BOUNDS.block:
        raise typer.BadParameter(f"{path} is larger than a block may be: {DEFAULT_BOUNDS.block:,} bytes")
    data = path.read_bytes()
    if codec == "dag-cbor":
        decode_dag_cbor(data)
    elif codec == "dag-json":
        decode_dag_json(data)
    cid = cid_of({"raw": RAW, "dag-cbor": DAG_CBOR, "dag-json": DAG_JSON}[codec], data)
    blocks.put(cid, data)
    on_bytes(len(data))
    return cid
