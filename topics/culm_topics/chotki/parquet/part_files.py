"""Writes rows as Parquet files with bounded row groups and numbers of rows, so memory is bounded too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

GROUP_ROWS: Final = 10_000
GROUP_BYTES: Final = 16 << 20
FILE_GROUPS: Final = 100


class PartFiles:
    """The files of one table, written one after the other: `count` files with `rows` rows in total."""

    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        self.count = self.rows = 0
        self._folder = folder
        self._schema = schema
        self._waiting: list[dict[str, Any]] = []
        self._bytes = self._groups = 0
        self._file: pq.ParquetWriter | None = None

    def write(self, row: dict[str, Any]) -> None:
        """Add a row."""
        self._waiting.append(row)
        self._bytes += _size(row)
        self.rows += 1
        if len(self._waiting) >= GROUP_ROWS or self._bytes >= GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the waiting rows as a row group; with no rows, only the columns."""
        if self._file is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            path = self._folder / f"part-{self.count:05d}.parquet"
            self._file = pq.ParquetWriter(path, self._schema, compression="zstd")
            self.count += 1
        self._file.write_table(pa.Table.from_pylist(self._waiting, schema=self._schema))
        self._waiting, self._bytes = [], 0
        self._groups += 1
        if self._groups == FILE_GROUPS:
            self.close()

    @property
    def has_waiting(self) -> bool:
        """Whether rows wait to be written."""
        return bool(self._waiting)

    def close(self) -> None:
        """Finish the last file."""
        if self._file is not None:
            self._file.close()
            self._file, self._groups = None, 0


@contextmanager
def part_files(folder: Path, schema: pa.Schema, *, always: bool) -> Iterator[PartFiles]:
    """Write the files of a table. With `always`, a table without rows gets a file with the columns."""
    files = PartFiles(folder, schema)
    try:
        yield files
        if files.has_waiting or (always and not files.count):
            files.flush()
    finally:
        files.close()


def _size(value: object) -> int:
    """Return the approximate size of a cell; small ones count too, since there may be many."""
    match value:
        case str():
            return len(value)
        case dict():
            return 8 + sum(_size(element) for element in value.values())
        case list() | tuple():
            return 8 + sum(_size(element) for element in value)
        case _:
            return 8
