"""Directories on the disk as trees to import, of which memory holds one chunk at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from culm_infra.errors import InfraError
from culm_models.dag.unixfs.importing import FileChunks, FileTree, Symlink


class DiskTree(Mapping[str, "bytes | FileChunks | Symlink | FileTree"]):
    """A directory; files are read as they are imported. Symbolic links are not followed, devices are refused.

    Names that begin with a dot count only with `hidden`, as in other tools that give these CIDs.
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
            # Not by `Path.readlink`, which would write the target in another way.
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
    """Whether an entry of a directory is not put."""
    return name.startswith(".") and not hidden


def _is_text(name: str) -> bool:
    """Whether a name of the system is UTF-8: what is not comes with halves of surrogate pairs in it."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def chunks_of(path: Path, size: int, on_bytes: Callable[[int], None]) -> Iterator[bytes]:
    """A file in chunks; `on_bytes` is told how many were read."""
    with path.open("rb") as file:
        while chunk := file.read(size):
            yield chunk
            on_bytes(len(chunk))


@dataclass(slots=True)
class TreeSize:
    """What a tree on the disk amounts to."""

    bytes: int = 0
    """Of all files that are put."""
    left_out: int = 0
    """Entries that are hidden, each with all that is below it."""


def size_below(path: Path, *, hidden: bool) -> TreeSize:
    """The size of a file, or of all files in a directory."""
    if path.is_file():
        return TreeSize(path.stat().st_size)
    found = TreeSize()
    for folder, folders, files in os.walk(path):
        for names in (folders, files):
            shown = [name for name in names if not is_left_out(name, hidden=hidden)]
            found.left_out += len(names) - len(shown)
            names[:] = shown
        paths = [Path(folder) / name for name in files]
        found.bytes += sum(path.lstat().st_size for path in paths if not path.is_symlink())
    return found
