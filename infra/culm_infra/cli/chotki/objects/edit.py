"""``culm chotki edit``: change an object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from culm_infra.cli import options
from culm_infra.cli.chotki.completion import complete_name
from culm_infra.cli.chotki.objects.writing import GlobalName, Values, WriterFlags, values_of, write
from culm_infra.cli.options import KafkaFlags, spread

if TYPE_CHECKING:
    from culm_topics.chotki.changes import Change


@spread
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
    json: options.Json = False,
) -> None:
    """Give fields of an object other values; print the ID of the change once Kafka has it.

    A value is the whole value: what a set or a map no longer has is removed. What is so already makes no
    change.

    Example: `culm chotki edit ann Age=43 Visits+=1`
    """
    from culm_topics.chotki.changes import Edit, Name

    changes: list[Change] = [Edit(object_, values_of(values))]
    if name is not None:
        changes.append(Name(name, object_))
    write(kafka, flags, lambda _: changes, json=json)
