"""Parquet, a table a class: renamed, added and removed things followed, from export to export."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from culm_models.chotki.ids import Id, object_key
from culm_topics.chotki.changes import Edit, EditClass, Name, NewClass, NewObject
from culm_topics.chotki.errors import ExportRefused, NameUnknown
from culm_topics.chotki.objects import Objects
from culm_topics.chotki.parquet import Exported, part_files, write_tables
from culm_topics.chotki.parquet.dataset import LIST_NAME, Dataset
from culm_topics.chotki.values import Term
from culm_topics.errors import OriginChanged
from culm_topics.kafka.origin import Origin
from tests.support.chotki.programs import ORIGIN, Programs, element, rows
from tests.support.freeze import chotki_export, frozen

ALL = NewClass({name: name for name in "FIRSTNZEMLV"}, "all")


def export(programs: Programs, folder: Path, *classes: str) -> Exported:
    return write_tables(programs.state, ORIGIN, folder, classes=classes or None)


@pytest.fixture
def programs() -> Programs:
    made = Programs()
    made.write(
        NewClass({"Name": "S", "Age": "I"}, "person"), NewObject("person", {"Name": "Ann", "Age": 42}, "ann")
    )
    made.merge()
    return made


def test_each_type_has_its_column(tmp_path: Path) -> None:
    programs = Programs()
    values = {
        "F": 2.5,
        "I": -3,
        "R": Id.make(10, 1),
        "S": "größe",
        "T": "word",
        "N": 7,
        "Z": -7,
        "E": [1, 2.5, "s", Term("t"), Id.make(1, 2)],
        "M": {"k": 1, Term("t"): "v"},
        "V": {11: Id.make(11, 5).pro},
    }
    programs.write(ALL, NewObject("all", values, "one"), NewObject("all", {}, "none"))
    programs.write(Edit("one", {"E": [1], "M": {"k": 1}}))
    programs.merge()
    export(programs, tmp_path)
    by_id = rows(tmp_path / "all")
    first = by_id[str(programs.get("one").id)]
    assert {name: first[name] for name in "FIRSTNZ"} == {**{n: values[n] for n in "FISTNZ"}, "R": "a-1"}
    assert first["E"]["present"] == [element(i=1)]
    assert {json.dumps(each) for each in first["E"]["removed"]} == {
        json.dumps(each) for each in (element(f=2.5), element(s="s"), element(t="t"), element(r="1-2"))
    }
    assert first["M"] == {
        "present": [{"key": element(s="k"), "value": element(i=1)}],
        "removed": [element(t="t")],
    }
    assert first["V"] == [("b", Id.make(11, 5).pro)] and first["L"] == []
    none = by_id[str(programs.get("none").id)]
    assert none["E"] == {"present": [], "removed": []} and none["S"] == "" and none["_others"] == []


def test_a_rename_keeps_the_column_and_an_added_field_is_null_before(
    programs: Programs, tmp_path: Path
) -> None:
    export(programs, tmp_path)
    programs.write(EditClass("person", {"Mail": "S"}, {"Name": "Title"}))
    programs.write(NewObject("person", {"Title": "Dr", "Mail": "a@b"}, "ben"))
    programs.merge()
    done = export(programs, tmp_path, "person")
    assert [(table.folder, table.rows, table.is_whole) for table in done.tables] == [("person", 1, False)]
    assert list(rows(tmp_path / "person").values()) == [
        {"Name": "Ann", "Age": 42, "Mail": None, "_others": [], "epoch": 1},
        {"Name": "Dr", "Age": 0, "Mail": "a@b", "_others": [], "epoch": 2},
    ]
    columns = json.loads((tmp_path / LIST_NAME).read_text())["tables"]["a-1"]["columns"]
    assert [(column["column"], column["name"], column["number"], column["letter"]) for column in columns] == [
        ("Name", "Title", 1, "S"),
        ("Age", "Age", 2, "I"),
        ("Mail", "Mail", 3, "S"),
    ]
    assert list(rows_of_new(programs, tmp_path / "new")) == ["Title", "Age", "Mail", "_others", "epoch"]


def rows_of_new(programs: Programs, folder: Path) -> dict[str, Any]:
    export(programs, folder)
    return next(iter(rows(folder / "person").values()))


def test_an_export_goes_on_with_what_has_changed_since(programs: Programs, tmp_path: Path) -> None:
    programs.write(*(NewObject("person", {"Name": f"n{number}"}) for number in range(20)))
    programs.merge()
    assert {table.folder: table.rows for table in export(programs, tmp_path).tables}["person"] == 21
    assert all(not table.rows for table in export(programs, tmp_path).tables)
    programs.write(Edit("ann", {"Age": 43}))
    programs.merge()
    programs.write(Edit("ann", {"Age": 44}), NewObject("person", {"Name": "new"}))
    programs.merge()
    done = export(programs, tmp_path)
    assert (done.epoch, {table.folder: table.rows for table in done.tables}["person"]) == (4, 2)
    assert sorted(path.name for path in (tmp_path / "person").iterdir()) == ["epoch=2", "epoch=4"]
    by_id = rows(tmp_path / "person")
    assert (len(by_id), by_id[str(programs.get("ann").id)]["Age"]) == (22, 44)


def test_a_class_that_comes_late_has_its_objects_written_again(tmp_path: Path) -> None:
    programs = Programs()
    programs.write(NewClass({"Name": "S"}, "person"), NewObject("person", {"Name": "Ann"}, "ann"))
    programs.merge()
    early = Programs()
    table = programs.state.table
    early.state.table.put_all({key: value for key, value in table.store() if chr(key[17]) != "C"})
    early.state.epoch = 1
    early.state.offsets = dict(programs.state.offsets)
    write_tables(early.state, ORIGIN, tmp_path)
    (row,) = rows(tmp_path / "a-1").values()
    assert row["_others"] == [("1S", '"Ann"')]
    programs.write(NewClass({"Other": "S"}, "other"))
    programs.merge()
    export(programs, tmp_path)
    by_id = rows(tmp_path / "a-1")
    assert [(row["Name"], row["_others"]) for row in by_id.values()] == [("Ann", [])]


def test_what_has_no_column_is_told_apart(programs: Programs, tmp_path: Path) -> None:
    ann = programs.get("ann").id
    programs.state.table.put_all(
        {
            object_key(Id(ann.src, ann.pro + 1), "S"): b"\xff",
            object_key(Id(ann.src, ann.pro + 9), "I"): b"0\x04",
        }
    )
    export(programs, tmp_path)
    (row,) = rows(tmp_path / "person").values()
    assert (row["Name"], row["Age"]) == (None, 42)
    assert dict(row["_others"]) == {"1S": '{"unreadable": "ff"}', "9I": "2"}


@pytest.mark.parametrize(
    ("names", "columns"),
    [
        (["Name", "name"], ["Name", "name_2S"]),
        (["epoch", "_id", "_x"], ["epoch_1S", "id_2S", "x_3S"]),
        (["a b", "größe", "a.b;"], ["a_b", "größe", "a_b_"]),
    ],
)
def test_columns_have_names_that_sql_takes_and_none_twice(
    tmp_path: Path, names: list[str], columns: list[str]
) -> None:
    programs = Programs()
    programs.write(NewClass(dict.fromkeys(names, "S"), "odd"), NewObject("odd", dict.fromkeys(names, "x")))
    programs.merge()
    export(programs, tmp_path)
    (row,) = rows(tmp_path / "odd").values()
    assert list(row)[: len(columns)] == columns
    assert [row[column] for column in columns] == ["x"] * len(columns)


def test_a_class_whose_name_is_no_folder_has_its_id(tmp_path: Path) -> None:
    programs = Programs()
    for name in ("../up", "Person", "person", None, "export.json"):
        programs.write(NewClass({"Name": "S"}, name))
    programs.merge()
    folders = {str(table.class_id): table.folder for table in export(programs, tmp_path).tables}
    assert folders == {
        "0-1": "0-1",
        "0-3": "0-3",
        "a-1": "a-1",
        "a-3": "Person",
        "a-5": "a-5",
        "a-7": "a-7",
        "a-8": "a-8",
    }
    assert rows(tmp_path / "Person") == {}, "a table without objects has its columns"


def test_memory_is_bounded_by_row_groups(
    programs: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part_files, "GROUP_ROWS", 10)
    monkeypatch.setattr(part_files, "FILE_GROUPS", 3)
    programs.write(*(NewObject("person", {"Name": f"n{number}"}) for number in range(64)))
    programs.merge()
    export(programs, tmp_path, "person")
    files = [pq.ParquetFile(path) for path in sorted((tmp_path / "person").rglob("*.parquet"))]
    groups = [[file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)] for file in files]
    assert groups == [[10, 10, 10], [10, 10, 10], [5]]
    assert [path.name for path in sorted((tmp_path / "person" / "epoch=2").iterdir())] == [
        f"part-{number:05d}.parquet" for number in range(3)
    ]


def test_large_rows_are_a_group_by_their_bytes(
    programs: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part_files, "GROUP_BYTES", 5_000)
    programs.write(*(NewObject("person", {"Name": "x" * 1_000}) for _ in range(20)))
    programs.merge()
    export(programs, tmp_path, "person")
    (file,) = (tmp_path / "person").rglob("*.parquet")
    assert pq.ParquetFile(file).num_row_groups == 4


def test_an_export_that_was_killed_is_done_again(
    programs: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export(programs, tmp_path)
    programs.write(Edit("ann", {"Age": 50}), NewClass({"A": "S"}, "other"), NewObject("other", {"A": "a"}))
    programs.merge()
    with monkeypatch.context() as patched:
        patched.setattr(Dataset, "_as_json", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            export(programs, tmp_path)
    early = rows(tmp_path / "person")
    programs.write(Edit("ann", {"Age": 51}))
    programs.merge()
    export(programs, tmp_path)
    assert [row["Age"] for row in early.values()] == [50]
    assert [row["Age"] for row in rows(tmp_path / "person").values()] == [51]
    assert len(rows(tmp_path / "other")) == 1
    assert not (tmp_path / "_temporary").exists()


def test_a_first_export_that_was_killed_is_done_again(
    programs: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(Dataset, "publish", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            export(programs, tmp_path)
    assert not list(tmp_path.rglob("*.parquet"))
    export(programs, tmp_path)
    assert len(rows(tmp_path / "person")) == 1


def test_a_state_that_is_behind_takes_nothing_away(programs: Programs, tmp_path: Path) -> None:
    """As one is that was read while the job was in the middle of an epoch, and not waited for."""
    early = Programs()
    programs.write(Edit("ann", {"Age": 43}))
    for number, records in enumerate(programs.log.partitions):
        early.log.partitions[number] = list(records)
    early.merge()
    programs.merge()
    export(programs, tmp_path)
    before = rows(tmp_path / "person"), (tmp_path / LIST_NAME).read_text()
    assert early.state.epoch == 1
    assert all(not table.rows for table in export(early, tmp_path).tables)
    assert (rows(tmp_path / "person"), (tmp_path / LIST_NAME).read_text()) == before


def test_a_repeated_micro_batch_takes_nothing_away(programs: Programs, tmp_path: Path) -> None:
    """Who reads the topic anew finds its repeat behind what the list covers, in the same epoch."""
    export(programs, tmp_path)
    before = rows(tmp_path / "person")
    again = Programs()
    for records in programs.log.partitions:
        for record in records:
            again.staging.take(replace(record, offset=record.offset + len(records)))
    assert again.state.epoch == programs.state.epoch and again.state.offsets != programs.state.offsets
    assert all(not table.rows for table in write_tables(again.state, ORIGIN, tmp_path).tables)
    assert rows(tmp_path / "person") == before


def test_a_folder_that_is_something_else_is_refused(programs: Programs, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with pytest.raises(ExportRefused, match="something else"):
        export(programs, tmp_path)
    folder = tmp_path / "new"
    export(programs, folder)
    with pytest.raises(OriginChanged):
        write_tables(programs.state, Origin("cluster", {"culm.chotki.state": "another"}), folder)
    with Dataset(folder, ORIGIN), pytest.raises(ExportRefused, match="another export"):
        export(programs, folder)
    with pytest.raises(NameUnknown):
        export(programs, folder, "nobody")
    known = json.loads((folder / LIST_NAME).read_text())
    (folder / LIST_NAME).write_text(json.dumps({**known, "format": 2}))
    with pytest.raises(ExportRefused, match="format 2"):
        export(programs, folder)
    (folder / LIST_NAME).write_text("{")
    with pytest.raises(ExportRefused, match="no list"):
        export(programs, folder)


def test_names_are_in_the_table_of_the_names(programs: Programs, tmp_path: Path) -> None:
    programs.write(Name("anna", "ann"))
    programs.merge()
    export(programs, tmp_path)
    (row,) = rows(tmp_path / "0-1").values()
    pairs = {entry["key"]["t"]: entry["value"]["r"] for entry in row["Names"]["present"]}
    assert pairs.items() >= {("ann", "a-3"), ("anna", "a-3"), ("person", "a-1")}
    assert Objects(programs.state.table).named("anna") == Id.make(10, 3)


def test_an_export_of_an_earlier_program_is_gone_on_with(tmp_path: Path) -> None:
    folder = frozen.unpack(chotki_export.NAME, tmp_path)
    frozen.assert_as_kept(chotki_export.NAME, chotki_export.read(folder))
