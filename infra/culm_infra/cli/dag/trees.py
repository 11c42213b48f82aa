"""Directories on the disk as trees to import, of which memory holds one chunk at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from culm_infra.errors import InfraError
from culm_models.dag.unixfs.importing import FileChunks, FileTree


class DiskTree(Mapping[str, "bytes | FileChunks | FileTree"]):
    """A directory; files are read as they are imported. Symbolic links and devices are refused."""

    def __init__(self, path: Path, on_bytes: Callable[[int], None] = lambda count: None) -> None:
        self._path = path
        self._on_bytes = on_bytes

    def __getitem__(self, name: str) -> bytes | FileChunks | FileTree:
        path = self._path / name
        if path.is_dir():
            return DiskTree(path, self._on_bytes)
        return lambda size: chunks_of(path, size, self._on_bytes)

    def __iter__(self) -> Iterator[str]:
        for entry in os.scandir(self._path):
            if entry.is_symlink() or not (entry.is_dir() or entry.is_file()):
                raise InfraError(
                    f"{entry.path} is neither file nor directory", hint="leave it out of the folder"
                )
            yield entry.name

    def __len__(self) -> int:
        return sum(1 for _ in self)


def chunks_of(path: Path, size: int, on_bytes: Callable[[int], None]) -> Iterator[bytes]:
    """A file in chunks; `on_bytes` is told how many were read."""
    with path.open("rb") as file:
        while chunk := file.read(size):
            yield chunk
            on_bytes(len(chunk))


def bytes_below(path: Path) -> int:
    """The bytes of a file, or of all files in a directory."""
    if path.is_file():
        return path.stat().st_size
    return sum(one.stat().st_size for one in path.rglob("*") if one.is_file())
