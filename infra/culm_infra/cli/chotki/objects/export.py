"""``culm chotki export``: objects as Parquet, one table a class."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from culm_infra.cli.chotki.completion import complete_name
from culm_infra.cli.chotki.reading import whole_state
from culm_infra.cli.options import KafkaFlags
from culm_infra.cli.output import EXIT_DEGRADED
from culm_infra.cli.results import Results


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
        Path | None, typer.Option(help="Keep the state here, for the next export to go on from.")
    ] = None,
    kafka: KafkaFlags,
    results: Results,
) -> None:
    """Write objects as Parquet, as of the last epoch; again in the same folder, what has changed since.

    Each class has a folder by its name, each export a folder in it by its epoch. Of several rows of one
    `_id` the one of the last `epoch` counts. A record that is none is passed over; the exit status is then 3.

    Example: `culm chotki export --output objects`, `culm chotki export --output objects --class person`
    """
    from culm_topics.chotki.parquet import write_tables

    with whole_state(kafka.settings(), results, state_dir=state_dir) as reader:
        done = write_tables(reader.state, reader.origin, output, classes=class_ or None)
        is_whole = not reader.passed_over.records
    rows = [
        {
            "class": str(one.class_id),
            "folder": str(output / one.folder),
            "rows": one.rows,
            "whole": one.is_whole,
            "epoch": done.epoch,
        }
        for one in done.tables
    ]
    results.rows(rows, ("class", "folder", "rows", "whole"), title=f"epoch {done.epoch}")
    if not is_whole:
        raise typer.Exit(EXIT_DEGRADED)
