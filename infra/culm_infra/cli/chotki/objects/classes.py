"""``culm chotki class``: make a class, give it more fields, rename them; list and show classes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final

import typer

from culm_infra.cli.chotki.completion import complete_name
from culm_infra.cli.chotki.objects.writing import WRITER_FLAGS, WriterFlags, write
from culm_infra.cli.chotki.reading import class_as_json, whole_state
from culm_infra.cli.options import KafkaFlags, named_once, refuse
from culm_infra.cli.results import Results, table
from culm_infra.columns import Columns, of
from culm_topics.chotki.changes import Change, EditClass, NewClass
from culm_topics.chotki.errors import NameUnknown, ObjectUnknown
from culm_topics.chotki.objects import ChotkiClass, Objects
from culm_topics.chotki.writer import ChotkiWriter
from culm_topics.kafka.clients import KafkaSettings

CLASSES: Final[Columns] = {
    "id": "id",
    "names": "names",
    "fields": of("fields", lambda fields: " ".join(f"{one['name']}:{one['type']}" for one in fields)),
}


def class_(
    context: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]", help="The class's global name, or its ID.", autocompletion=complete_name
        ),
    ] = None,
    fields: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FIELD:TYPE]…", help="New fields, each with its type: F I R S T N Z E M L V."
        ),
    ] = None,
    *,
    rename: Annotated[
        list[str] | None, typer.Option(metavar="OLD=NEW", help="Another name for a field; repeatable.")
    ] = None,
    kafka: KafkaFlags,
    flags: WriterFlags,
    results: Results,
) -> None:
    """Make a class of this name; where there is one, give it these fields too.

    Without fields it shows the class, without a name all classes. Of the names of a field all replicas take
    the last in the order of bytes, so a new name must come behind the present one.

    Example: `culm chotki class person Name:S Age:I Visits:N`, `culm chotki class person Mail:S`
    """
    added, renamed = _pairs(fields, ":", "FIELD:TYPE"), _pairs(rename, "=", "--rename")
    if name is not None and (added or renamed):
        _write(kafka, name, added, renamed, flags, results)
        return
    refuse(context, ["rename"], "which class? give its NAME")
    refuse(context, WRITER_FLAGS, "nothing is written without a FIELD:TYPE or --rename")
    _show(kafka.settings(), name, results)


def _write(
    kafka: KafkaFlags,
    name: str,
    added: dict[str, str],
    renamed: dict[str, str],
    flags: WriterFlags,
    results: Results,
) -> None:

    def change(writer: ChotkiWriter) -> list[Change]:
        try:
            writer.objects.resolve(name)
        except NameUnknown:
            if not renamed:
                return [NewClass(added, name)]
            raise
        return [EditClass(name, added, renamed)]

    write(kafka, flags, change, results)


def _show(settings: KafkaSettings, name: str | None, results: Results) -> None:

    with whole_state(settings, results) as reader:
        view = Objects(reader.state.table)
        found = list(view.classes()) if name is None else _one(view, name)
    if not found:
        raise ObjectUnknown(f"{name} is no class")
    rows = [class_as_json(one) for one in found]
    if name is None or results.json:
        results.rows(rows, CLASSES)
    else:
        title = f"{rows[0]['id']}  {', '.join(rows[0]['names'])}"
        table(title, ("number", "name", "type"), rows[0]["fields"])


def _one(view: Objects, name: str) -> list[ChotkiClass]:
    found = view.class_of(view.resolve(name))
    return [] if found is None else [found]


def _pairs(given: Iterable[str] | None, mark: str, what: str) -> dict[str, str]:
    pairs = []
    for one in given or ():
        left, found, right = one.rpartition(mark)
        if not found or not left or not right:
            raise typer.BadParameter(f"{one!r} is not two words with {mark} between", param_hint=what)
        pairs.append((left, right))
    return named_once(pairs, what)
