"""``culm chotki new``: make an object."""

from __future__ import annotations

from typing import Annotated

import typer

from culm_infra.cli import options
from culm_infra.cli.chotki.completion import complete_name
from culm_infra.cli.chotki.objects.writing import GlobalName, Values, WriterFlags, values_of, write
from culm_infra.cli.options import KafkaFlags, spread


@spread
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
    json: options.Json = False,
) -> None:
    """Make an object of a class; print its ID once Kafka has it.

    It is merged, and can be read, with the next epoch of the job `chotki`.

    Example: `culm chotki new person Name=Ann Age=42 'Tags={a,b}' --name ann`
    """
    from culm_topics.chotki.changes import NewObject

    change = NewObject(class_, values_of(values), name)
    write(kafka, flags, lambda _: [change], json=json)
