"""An export of Chotki's objects: two epochs in a folder, and a third one that comes to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from culm_topics.chotki.changes import Change, Edit, EditClass, NewClass, NewObject
from culm_topics.chotki.parquet import write_tables
from tests.support.chotki.programs import ORIGIN, Programs, rows

NAME = "chotki-export"


def _programs(epochs: int, folder: Path | None = None) -> Programs:
    """The state of an epoch; with a folder each epoch is exported."""
    programs = Programs()
    person = NewClass({"Name": "S", "Age": "I", "Tags": "E", "Notes": "M"}, "person")
    epoch_changes: tuple[list[Change], ...] = (
        [person, NewObject("person", {"Name": "Ann", "Age": 42, "Tags": ["a", 1], "Notes": {"k": 2}}, "ann")],
        [EditClass("person", {"Mail": "S"}, {"Name": "Title"}), Edit("ann", {"Mail": "a@b", "Tags": [1]})],
        [Edit("ann", {"Title": "Dr"}), NewObject("person", {"Title": "Ben"}, "ben")],
    )
    for changes in epoch_changes[:epochs]:
        programs.write(*changes)
        programs.merge()
        if folder is not None:
            write_tables(programs.state, ORIGIN, folder)
    return programs


def make(folder: Path) -> None:
    """An export, gone on with once."""
    _programs(2, folder)
    (folder / "_lock").unlink()


def read(folder: Path) -> dict[str, Any]:
    """What the tables have after an export that goes on with it, and their list."""
    write_tables(_programs(3).state, ORIGIN, folder)
    return {
        "list": json.loads((folder / "export.json").read_text()),
        "files": sorted(str(path.relative_to(folder)) for path in folder.rglob("*.parquet")),
        "person": dict(sorted(rows(folder / "person").items())),
    }
