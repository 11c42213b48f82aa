"""Blocks on their way into shards: in one temporary file, of which memory holds the CIDs alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryFile
from typing import Self

from culm_models.dag.blocks.cid import Cid


class BlockFile:
    """Takes blocks and gives them back; the file lies in `folder` and goes with the context."""

    def __init__(self, folder: Path) -> None:
        self._file = TemporaryFile(dir=folder)  # noqa: SIM115
        self._places: dict[Cid, tuple[int, int]] = {}
        self._end = 0

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[Cid]:
        """The blocks that are here, in the order in which they came."""
        return iter(self._places)

    def put(self, cid: Cid, block: bytes) -> None:
        """Take a block; one that is here changes nothing."""
        if cid not in self._places:
            self._file.seek(self._end)
            self._file.write(block)
            self._places[cid] = (self._end, len(block))
            self._end += len(block)

    def find(self, cid: Cid) -> bytes | None:
        """A block that is here."""
        place = self._places.get(cid)
        if place is None:
            return None
        self._file.seek(place[0])
        return self._file.read(place[1])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failed: object) -> None:
        self._file.close()
