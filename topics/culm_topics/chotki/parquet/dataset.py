"""The folder of an export: a table per class, and a list with the contents and the progress of each table.

    objects/export.json
    objects/person/epoch=3/part-00000.parquet      every object of the class, as of epoch 3
    objects/person/epoch=9/part-00000.parquet      objects that changed since, as of epoch 9

New files appear by one renaming, and the list last. An export that was killed is repeated from the position
in the list; its files are valid, although early. One export at a time writes to a folder.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from culm_models.chotki.ids import Id
from culm_topics.chotki.errors import ExportRefused
from culm_topics.chotki.objects import ChotkiClass
from culm_topics.chotki.parquet.columns import EPOCH_COLUMN, TableColumn
from culm_topics.errors import RecordError
from culm_topics.kafka.origin import Origin

LIST_NAME: Final = "export.json"
FORMAT: Final = 1
_NEW: Final = "_temporary"
"""Readers skip names that begin with this."""
_LOCK: Final = "_lock"
_HINT: Final = "name a new or an empty folder"
_SAFE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


@dataclass(frozen=True, slots=True)
class Table:
    """A class's table: its folder, its columns, the epoch and the offsets up to which it is complete."""

    folder: str
    columns: tuple[TableColumn, ...]
    epoch: int
    offsets: Mapping[int, int]


class Dataset:
    """The folder, locked while it is open. `tables` are by class.

    Raises `ExportRefused` if the folder contains other files, is of a later format, or is in use by another
    export; `OriginChanged` if it belongs to another topic.
    """

    def __init__(self, folder: Path, origin: Origin) -> None:
        self.folder = folder
        self.tables: dict[Id, Table] = {}
        self._origin = origin
        self._written: list[Table] = []
        folder.mkdir(parents=True, exist_ok=True)
        known = folder / LIST_NAME
        if not known.exists() and any(entry.name not in (_LOCK, _NEW) for entry in folder.iterdir()):
            raise ExportRefused(f"{folder} has something else in it", hint=_HINT)
        self._lock = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if known.exists():
                self._read(known)
            else:
                # From here on the folder is recognised as an export, even if the first export fails.
                self._write_list()
            shutil.rmtree(folder / _NEW, ignore_errors=True)
        except BlockingIOError as error:
            os.close(self._lock)
            raise ExportRefused(f"another export writes to {folder}", hint="wait until it is done") from error
        except BaseException:
            os.close(self._lock)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        shutil.rmtree(self.folder / _NEW, ignore_errors=True)
        os.close(self._lock)

    def folder_for(self, class_: ChotkiClass | None, class_id: Id) -> str:
        """Return a folder for a new table: the class's name if it is safe and free, else its ID."""
        taken = {table.folder.casefold() for table in self.tables.values()}
        name = str(class_id) if class_ is None else class_.name
        if not _SAFE.fullmatch(name) or name.casefold() in taken:
            name = str(class_id)
        while name.casefold() in taken:
            name += "-"
        return name

    def new_folder(self, table: str) -> Path:
        """Return the folder for a table's new files until they are complete; it may not exist yet."""
        return self.folder / _NEW / table

    def add(self, class_id: Id, table: Table, *, is_written: bool) -> None:
        """Set a table's state for the next `publish`; `is_written` tells whether it has new files."""
        self.tables[class_id] = table
        if is_written:
            self._written.append(table)

    def publish(self) -> None:
        """Move the new files to their place, and write the list."""
        for table in self._written:
            target = self.folder / table.folder / f"{EPOCH_COLUMN}={table.epoch}"
            # Files that are there already were left by an export that did not reach its list.
            shutil.rmtree(target, ignore_errors=True)
            target.parent.mkdir(exist_ok=True)
            self.new_folder(table.folder).replace(target)
        self._written.clear()
        self._write_list()

    def _write_list(self) -> None:
        partial = self.folder / f"{_NEW}.json"
        partial.write_text(json.dumps(self._as_json(), indent=1, ensure_ascii=False), encoding="utf-8")
        partial.replace(self.folder / LIST_NAME)

    def _as_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "origin": json.loads(self._origin.encode()),
            "tables": {
                str(class_id): {
                    "folder": table.folder,
                    "epoch": table.epoch,
                    "offsets": sorted(table.offsets.items()),
                    "columns": [column._asdict() for column in table.columns],
                }
                for class_id, table in sorted(self.tables.items())
            },
        }

    def _read(self, path: Path) -> None:
        try:
            listing = json.loads(path.read_text(encoding="utf-8"))
            form, origin = listing["format"], Origin.decode(json.dumps(listing["origin"]).encode())
            if form == FORMAT:
                self.tables = {
                    _id(text): Table(
                        str(table["folder"]),
                        tuple(TableColumn(**column) for column in table["columns"]),
                        int(table["epoch"]),
                        {int(partition): int(offset) for partition, offset in table["offsets"]},
                    )
                    for text, table in listing["tables"].items()
                }
        except (ValueError, LookupError, TypeError, RecordError) as error:
            raise ExportRefused(
                f"{path} is no list of tables: {error}", hint="name an empty folder"
            ) from error
        if form != FORMAT:
            raise ExportRefused(f"{path} has format {form}, not {FORMAT}", hint=_HINT)
        origin.check(self._origin, what=f"the export in {self.folder}", remedy="export into an empty folder")


def _id(text: str) -> Id:
    src, seq = text.rsplit("-", 1)
    return Id.make(int(src, 16) % (1 << 64), int(seq, 16))
