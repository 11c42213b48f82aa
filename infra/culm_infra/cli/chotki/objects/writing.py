"""What the commands that write share: whose source they use, FIELD=VALUE, and what was made."""

from __future__ import annotations

import getpass
import re
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Annotated, Final

import typer

from culm_infra.cli.options import KafkaFlags, named_once
from culm_infra.cli.output import say
from culm_infra.cli.results import Results
from culm_topics.chotki.changes import Change, FromText, Plus
from culm_topics.chotki.writer import ChotkiWriter

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
    """Whose packets a command makes."""

    owner: Annotated[
        str | None, typer.Option(help="Whose source it is; by default this user at this machine.")
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
) -> None:
    """Write changes as one call; print the ID of the first that says something when Kafka has them all."""
    if flags.owner == "":
        raise typer.BadParameter("an owner has a name", param_hint="--owner")
    owner = flags.owner or f"{getpass.getuser()}@{socket.gethostname()}"
    source = None if flags.source is None else source_number(flags.source, "--source")
    with ChotkiWriter(kafka.settings(), owner=owner, source=source, take_over=flags.take_over) as writer:
        id = next((str(one) for one in writer.write(*changes(writer)) if one is not None), None)
        if id is not None or results.json:
            results.one({"id": id, "source": f"{writer.source:x}"}, str(id))
        else:
            say("nothing to change: it is so already")


def values_of(given: Iterable[str] | None) -> dict[str, FromText | Plus]:
    """FIELD=VALUE and FIELD+=N by field."""
    values: list[tuple[str, FromText | Plus]] = []
    for one in given or ():
        name, equals, text = one.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{one!r} is not FIELD=VALUE", param_hint="FIELD=VALUE")
        if name.endswith("+"):
            try:
                values.append((name[:-1], Plus(int(text))))
            except ValueError:
                raise typer.BadParameter(f"{text!r} is no number", param_hint=f"{name}=") from None
        else:
            values.append((name, FromText(text)))
    return named_once(values, "FIELD=VALUE")


def source_number(text: str, hint: str = "HEX") -> int:
    """A source in hex, as people write it."""
    if re.fullmatch("[0-9a-fA-F]{1,16}", text) is None:
        raise typer.BadParameter(f"{text!r} is not a number in hex, of 16 digits at most", param_hint=hint)
    return int(text, 16)
