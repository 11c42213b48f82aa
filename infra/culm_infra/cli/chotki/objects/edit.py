"""``culm chotki new`` and ``edit``: make an object, change one."""

from __future__ import annotations

from typing import Annotated

import typer

from culm_infra.cli.chotki.completion import complete_name
from culm_infra.cli.chotki.objects.writing import GlobalName, Values, WriterFlags, values_of, write
from culm_infra.cli.options import KafkaFlags
from culm_infra.cli.results import Results
from culm_topics.chotki.changes import Change, Edit, Name, NewObject


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
    """Make an object of a class; print its ID once Kafka has it.

    It is merged, and can be read, with the next epoch of the job `chotki`.

    Example: `culm chotki new person Name=Ann Age=42 'Tags={a,b}' --name ann`
    """
    change = NewObject(class_, values_of(values), name)
    write(kafka, flags, lambda _: [change], results)


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
    """Give fields of an object other values; print the ID of the change once Kafka has it.

    A value is the whole value: what a set or a map no longer has is removed. What is so already makes no
    change.

    Example: `culm chotki edit ann Age=43 Visits+=1`
    """
    changes: list[Change] = [Edit(object_, values_of(values))]
    if name is not None:
        changes.append(Name(name, object_))
    write(kafka, flags, lambda _: changes, results)
