"""``culm chotki get`` and ``export``: merged objects, and the state that other commands read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from culm_infra.cli.chotki.completion import complete_name, remember_names
from culm_infra.cli.kit.options import KafkaFlags
from culm_infra.cli.kit.output import EXIT_DEGRADED, Results, counting, print_table, say
from culm_infra.columns import Columns, Row, of
from culm_models.chotki.ids import Id
from culm_topics.chotki.errors import ObjectUnknown
from culm_topics.chotki.objects import ChotkiClass, ChotkiObject, Objects, place_of
from culm_topics.chotki.state_reader import StateReader
from culm_topics.chotki.values import Elements, Pairs, plain_value
from culm_topics.kafka.clients import KafkaSettings

_WAIT_S = 5.0


@contextmanager
def whole_state(
    settings: KafkaSettings, results: Results, *, state_dir: Path | None = None
) -> Iterator[StateReader]:
    """Read the state up to the last epoch; print a notice if records of an incomplete epoch follow."""
    with StateReader(settings, state_dir=state_dir) as reader:
        with counting("reading the state"):
            for _ in reader.catch_up(_WAIT_S):
                continue
        results.passed_over(reader.passed_over)
        if not reader.is_complete:
            say(
                f"epoch {reader.state.epoch} is shown; {reader.waiting} records of the next one are there, "
                "but not its end: is the job `chotki` running?"
            )
        elif not reader.state.epoch:
            say("no epoch yet: `culm job run chotki` merges the changes of edges and writers")
        remember_names(settings, Objects(reader.state.table).names())
        yield reader


def vector_texts(vector: Mapping[int, int]) -> list[str]:
    """Return the last ID of each source as text."""
    return [str(Id(*entry)) for entry in sorted(vector.items())]


def object_as_json(object_: ChotkiObject) -> dict[str, Any]:
    """Return an object: its fields as plain values, their types, and removed elements of sets and maps."""
    types = (
        {}
        if object_.class_ is None
        else {name: field.letter for name, field in object_.class_.fields.items()}
    )
    removed = {
        name: [plain_value(element) for element in value.removed]
        for name, value in object_.fields.items()
        if isinstance(value, (Elements, Pairs)) and value.removed
    }
    others = {f"{number:x}{letter}": plain_value(value) for (number, letter), value in object_.others.items()}
    return {
        "id": str(object_.id),
        "class": str(object_.class_id),
        "class_names": [] if object_.class_ is None else list(object_.class_.names),
        "names": list(object_.names),
        "fields": {name: plain_value(value) for name, value in object_.fields.items()},
        "types": types,
        **({"removed": removed} if removed else {}),
        **({"others": others} if others else {}),
    }


def class_as_json(class_: ChotkiClass) -> dict[str, Any]:
    """Return a class with its fields in their order."""
    return {
        "id": str(class_.id),
        "names": list(class_.names),
        "fields": [
            {"name": name, "type": field.letter, "number": place_of(class_.id, field)[0]}
            for name, field in class_.fields.items()
        ],
    }


def _class_name(row: Row) -> str:
    return str(row["class_names"][0] if row["class_names"] else row["class"])


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _fields(fields: dict[str, Any]) -> str:
    return " ".join(f"{name}={_text(value)}" for name, value in fields.items() if value is not None)


OBJECTS: Final[Columns] = {
    "id": "id",
    "class": _class_name,
    "names": "names",
    "fields": of("fields", _fields),
}


def get(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[OBJECT]",
            help="Only this object, by its global name or ID.",
            autocompletion=complete_name,
        ),
    ] = None,
    *,
    class_: Annotated[
        str | None,
        typer.Option(
            "--class",
            metavar="CLASS",
            help="Objects of this class, by name or ID.",
            autocompletion=complete_name,
        ),
    ] = None,
    kafka: KafkaFlags,
    results: Results,
) -> None:
    """Print an object, all objects of a class, or all objects, as of the last epoch; with `--json` one a
    line.

    A field that was never written is `null`; removed elements of a set or a map are listed in `removed`.

    Example: `culm chotki get ann`, `culm chotki get --class person --json`
    """
    with whole_state(kafka.settings(), results) as reader:
        view = Objects(reader.state.table)
        ids = None if class_ is None else view.ids_of_class(view.resolve(class_))
        if name is not None:
            id = view.resolve(name)
            ids = iter([id] if ids is None else [id_of_class for id_of_class in ids if id_of_class == id])
        objects = list(view.objects(ids))
    if name is not None and not objects:
        raise ObjectUnknown(f"there is no such object: {name}")
    rows = list(map(object_as_json, objects))
    if name is not None and not results.json:
        _show(rows[0])
    elif rows or results.json:
        results.rows(rows, OBJECTS)
    else:
        say("no objects")


def _show(plain: Row) -> None:
    removed = plain.get("removed", {})
    rows = [
        (name, plain["types"].get(name, ""), _text(value), _text(removed[name]) if name in removed else "")
        for name, value in plain["fields"].items()
    ]
    rows += [(key[:-1], key[-1], _text(value), "") for key, value in plain.get("others", {}).items()]
    title = f"{plain['id']}  {_class_name(plain)}  {', '.join(plain['names'])}".rstrip()
    print_table(title, ("field", "type", "value", "removed"), rows)


def export(
    *,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Folder of the tables: a new one, or an earlier export's."),
    ],
    class_: Annotated[
        list[str] | None,
        typer.Option(
            "--class",
            metavar="CLASS",
            help="Only this class, by name or ID; repeatable.",
            autocompletion=complete_name,
        ),
    ] = None,
    state_dir: Annotated[
        Path | None, typer.Option(help="Keep the state here, so that the next export resumes from it.")
    ] = None,
    kafka: KafkaFlags,
    results: Results,
) -> None:
    """Write objects as Parquet, as of the last epoch; in the folder of an earlier export, only the changes.

    Each class has a folder named after it, which contains one folder per export, named by its epoch. If
    several rows have the same `_id`, the row of the last `epoch` counts. Malformed records are skipped; the
    exit status is then 3.

    Example: `culm chotki export --output objects`, `culm chotki export --output objects --class person`
    """
    from culm_topics.chotki.parquet import write_tables

    with whole_state(kafka.settings(), results, state_dir=state_dir) as reader:
        done = write_tables(reader.state, reader.origin, output, classes=class_ or None)
        is_whole = not reader.passed_over.records
    rows = [
        {
            "class": str(table.class_id),
            "folder": str(output / table.folder),
            "rows": table.rows,
            "whole": table.is_whole,
            "epoch": done.epoch,
        }
        for table in done.tables
    ]
    results.rows(rows, ("class", "folder", "rows", "whole"), title=f"epoch {done.epoch}")
    if not is_whole:
        raise typer.Exit(EXIT_DEGRADED)
