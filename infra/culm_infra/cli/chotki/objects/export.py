"""``culm chotki export``: objects as Parquet, one table a class."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from culm_infra.cli import options
from culm_infra.cli.chotki.completion import complete_name
from culm_infra.cli.chotki.reading import whole_state
from culm_infra.cli.options import KafkaFlags, spread
from culm_infra.cli.output import EXIT_DEGRADED, emit_json, print_table


@spread
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
        Path | None,
        typer.Option("--state-dir", help="Keep the state here, for the next export to go on from."),
    ] = None,
    kafka: KafkaFlags,
    json: options.Json = False,
) -> None:
    """Write objects as Parquet, as of the last epoch; again in the same folder, what has changed since.

    Each class has a folder by its name, each export a folder in it by its epoch. Of several rows of one
    `_id` the one of the last `epoch` counts. A record that is none is passed over; the exit status is then 3.

    Example: `culm chotki export --output objects`, `culm chotki export --output objects --class person`
    """
    from culm_topics.chotki.parquet import write_tables

    with whole_state(kafka.settings(), state_dir=state_dir, json=json) as reader:
        done = write_tables(reader.state, reader.origin, output, classes=class_ or None)
        is_whole = not reader.passed_over.records
    rows = [(str(one.class_id), str(output / one.folder), one.rows, one.is_whole) for one in done.tables]
    names = ("class", "folder", "rows", "whole")
    if json:
        for row in rows:
            emit_json({**dict(zip(names, row, strict=True)), "epoch": done.epoch})
    else:
        print_table(f"epoch {done.epoch}", names, rows)
    if not is_whole:
        raise typer.Exit(EXIT_DEGRADED)
