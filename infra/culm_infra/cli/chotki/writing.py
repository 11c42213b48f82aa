"""``culm chotki class``, ``new`` and ``edit``: create and change classes and objects; list classes."""

from __future__ import annotations

import getpass
import re
import shlex
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Annotated, Final

import typer

from culm_infra.cli.chotki.completion import complete_name
from culm_infra.cli.chotki.reading import class_as_json, whole_state
from culm_infra.cli.kit.options import KafkaFlags, named_once, refuse
from culm_infra.cli.kit.output import Results, say, table
from culm_infra.columns import Columns, of
from culm_topics.chotki.changes import Change, Edit, EditClass, FromText, Name, NewClass, NewObject, Plus
from culm_topics.chotki.errors import NameUnknown, ObjectUnknown
from culm_topics.chotki.objects import ChotkiClass, Objects
from culm_topics.chotki.writer import ChotkiWriter
from culm_topics.kafka.clients import KafkaSettings

Values = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[FIELD=VALUE]…",
        help='As text: 42, 2.5, Ann or "Ann", {a,b}, {k:v}, an ID or a name. FIELD+=N adds to N and Z.',
    ),
]
GlobalName = Annotated[
    str | None, typer.Option("--name", help="A global name, by which it can be found everywhere.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterFlags:
    """The source under which a command writes its packets."""

    owner: Annotated[
        str | None, typer.Option(help="The owner of the source; by default this user on this machine.")
    ] = None
    source: Annotated[
        str | None, typer.Option(metavar="HEX", help="The source; by default the owner's, or a free one.")
    ] = None
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Use the source although a killed writer still has it.")
    ] = False


WRITER_FLAGS: Final = frozenset(field.name for field in fields(WriterFlags))


def write(
    kafka: KafkaFlags,
    flags: WriterFlags,
    changes: Callable[[ChotkiWriter], list[Change]],
    results: Results,
    follow_up: Callable[[str], str],
) -> None:
    """Write changes as one call; print the ID of the first change that has one once Kafka has them all.

    `follow_up` returns the command that usually follows for that ID.
    """
    if flags.owner == "":
        raise typer.BadParameter("an owner has a name", param_hint="--owner")
    owner = flags.owner or f"{getpass.getuser()}@{socket.gethostname()}"
    source = None if flags.source is None else source_number(flags.source, "--source")
    with ChotkiWriter(kafka.settings(), owner=owner, source=source, take_over=flags.take_over) as writer:
        id = next((str(created) for created in writer.write(*changes(writer)) if created is not None), None)
        if id is None:
            say("nothing to change: the values are the same already")
            return
        results.one({"id": id, "source": f"{writer.source:x}"}, id)
    results.next(follow_up(id))


def values_of(pairs: Iterable[str] | None) -> dict[str, FromText | Plus]:
    """Parse FIELD=VALUE and FIELD+=N. Returns them by field."""
    values: list[tuple[str, FromText | Plus]] = []
    for pair in pairs or ():
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{pair!r} is not FIELD=VALUE", param_hint="FIELD=VALUE")
        if name.endswith("+"):
            try:
                values.append((name[:-1], Plus(int(text))))
            except ValueError:
                raise typer.BadParameter(f"{text!r} is no number", param_hint=f"{name}=") from None
        else:
            values.append((name, FromText(text)))
    return named_once(values, "FIELD=VALUE")


def source_number(text: str, hint: str = "HEX") -> int:
    """Parse a source in hex. Raises `typer.BadParameter`."""
    if re.fullmatch("[0-9a-fA-F]{1,16}", text) is None:
        raise typer.BadParameter(f"{text!r} is not a number in hex, of 16 digits at most", param_hint=hint)
    return int(text, 16)


def new(
    class_: Annotated[
        str,
        typer.Argument(
            metavar="CLASS", help="The class, by its global name or ID.", autocompletion=complete_name
        ),
    ],
    values: Values = None,
    *,
    name: GlobalName = None,
    kafka: KafkaFlags,
    flags: WriterFlags,
    results: Results,
) -> None:
    """Create an object of a class; print its ID once Kafka has it.

    It is merged, and can be read, with the next epoch of the job `chotki`.

    Example: `culm chotki new person Name=Ann Age=42 'Tags={a,b}' --name ann`
    """
    change = NewObject(class_, values_of(values), name)
    write(kafka, flags, lambda _: [change], results, lambda id: f"culm chotki get {shlex.quote(name or id)}")


def edit(
    object_: Annotated[
        str,
        typer.Argument(
            metavar="OBJECT", help="The object, by its global name or ID.", autocompletion=complete_name
        ),
    ],
    values: Values = None,
    *,
    name: GlobalName = None,
    kafka: KafkaFlags,
    flags: WriterFlags,
    results: Results,
) -> None:
    """Change the values of an object's fields; print the ID of the change once Kafka has it.

    A value replaces the whole field: elements that a set or a map no longer contains are removed. A value
    that is equal to the present one makes no change.

    Example: `culm chotki edit ann Age=43 Visits+=1`
    """
    changes: list[Change] = [Edit(object_, values_of(values))]
    if name is not None:
        changes.append(Name(name, object_))
    write(kafka, flags, lambda _: changes, results, lambda _: f"culm chotki get {shlex.quote(object_)}")


CLASSES: Final[Columns] = {
    "id": "id",
    "names": "names",
    "fields": of("fields", lambda fields: " ".join(f"{field['name']}:{field['type']}" for field in fields)),
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
    """Create a class of this name, or add these fields to an existing class.

    Without fields it shows the class, without a name all classes. If a field has several names, all replicas
    use the last one in the order of bytes, so a new name must sort after the present one.

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

    write(kafka, flags, change, results, lambda _: f"culm chotki new {shlex.quote(name)} FIELD=VALUE")


def _show(settings: KafkaSettings, name: str | None, results: Results) -> None:

    with whole_state(settings, results) as reader:
        view = Objects(reader.state.table)
        classes = list(view.classes()) if name is None else _class_named(view, name)
    if not classes:
        raise ObjectUnknown(f"{name} is no class")
    rows = [class_as_json(class_) for class_ in classes]
    if name is None or results.json:
        results.rows(rows, CLASSES)
    else:
        title = f"{rows[0]['id']}  {', '.join(rows[0]['names'])}"
        table(title, ("number", "name", "type"), rows[0]["fields"])


def _class_named(view: Objects, name: str) -> list[ChotkiClass]:
    class_ = view.class_of(view.resolve(name))
    return [] if class_ is None else [class_]


def _pairs(texts: Iterable[str] | None, mark: str, what: str) -> dict[str, str]:
    pairs = []
    for text in texts or ():
        left, separator, right = text.rpartition(mark)
        if not separator or not left or not right:
            raise typer.BadParameter(f"{text!r} is not two words with {mark} between", param_hint=what)
        pairs.append((left, right))
    return named_once(pairs, what)
