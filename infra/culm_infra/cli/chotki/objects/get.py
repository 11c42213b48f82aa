"""``culm chotki get``: objects as they are merged."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final

import typer

from culm_infra.cli.chotki.completion import complete_name
from culm_infra.cli.chotki.reading import object_as_json, whole_state
from culm_infra.cli.options import KafkaFlags
from culm_infra.cli.output import print_table, say
from culm_infra.cli.results import Results
from culm_infra.columns import Columns, Row, of
from culm_topics.chotki.errors import ObjectUnknown
from culm_topics.chotki.objects import Objects


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
    """Print an object, those of a class, or all of them, as of the last epoch; with `--json` one a line.

    A field that was never written is `null`; what was removed of a set or a map stands in `removed`.

    Example: `culm chotki get ann`, `culm chotki get --class person --json`
    """
    with whole_state(kafka.settings(), results) as reader:
        view = Objects(reader.state.table)
        ids = None if class_ is None else view.ids_of_class(view.resolve(class_))
        if name is not None:
            id = view.resolve(name)
            ids = iter([id] if ids is None else [one for one in ids if one == id])
        found = list(view.objects(ids))
    if name is not None and not found:
        raise ObjectUnknown(f"there is no such object: {name}")
    rows = list(map(object_as_json, found))
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
    rows += [(place[:-1], place[-1], _text(value), "") for place, value in plain.get("others", {}).items()]
    title = f"{plain['id']}  {_class_name(plain)}  {', '.join(plain['names'])}".rstrip()
    print_table(title, ("field", "type", "value", "removed"), rows)
