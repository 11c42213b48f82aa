"""``culm logs repair``: entries that expired before they got to `logs`, produced again from an index."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from culm_infra.cli import options
from culm_infra.cli.connector import home
from culm_infra.cli.options import KafkaFlags, public_key
from culm_infra.cli.output import EXIT_DEGRADED, emit_json, out, progress, say, show_parts
from culm_infra.cli.results import Results, table
from culm_infra.columns import Columns
from culm_topics.records import split_flavoured_log_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from culm_connectors.logs.lost_entries.stopped_edge import Repair
    from culm_connectors.logs.lost_entries.survey import LostPart

_SHOWN = 50
_PARTS: Final[Columns] = {
    "author": "public_key",
    "log": "log_id",
    "height": "height",
    "held here": lambda row: None if row["first"] is None else f"{row['first']} to {row['last']}",
    "missing from": "missing_from",
}


def repair(
    *,
    author: Annotated[
        list[str] | None,
        typer.Option(metavar="PUBLIC_KEY", help="Only logs of this author, in hex; repeatable."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what is missing, and produce nothing.")
    ] = False,
    directory: options.ConnectorDirectory = None,
    kafka: KafkaFlags,
    results: Results,
) -> None:
    """Produce to `entries` again what a stopped connector's index holds and `logs` can get from nowhere else.

    That is what expired on `entries` before the job `logs` had read it. What the job has still to read is no
    gap. Run it as often as you like: the job drops repeats. A connector that runs does the same by itself.

    Ends with status 3 where logs go on lacking entries: those that this index does not hold, and with
    `--dry-run` all. Then try the folder of another connector.

    Example: `culm logs repair --dir ./edge-1 --dry-run`
    """
    from culm_connectors.logs.lost_entries.stopped_edge import repair_from
    from culm_connectors.logs.replicated_logs import INDEX_FOLDER, INDEXED_TOPICS
    from culm_connectors.protocols import LOG_PAYLOADS, load
    from culm_infra.settings import resolve_kafka

    authors = frozenset(public_key(text, "--author") for text in author or ())
    settings = kafka.load(connector={"directory": directory})
    with progress() as display:
        done = asyncio.run(
            repair_from(
                home(settings),
                INDEX_FOLDER,
                load(LOG_PAYLOADS),
                resolve_kafka(settings),
                INDEXED_TOPICS,
                authors=authors,
                dry_run=dry_run,
                progress=show_parts(display),
            )
        )
    if results.json:
        rows = [_row(part) for part in done.parts]
        emit_json({"logs": rows, "missing_logs": len(_missing(done)), "produced": done.produced})
    else:
        _print(done, dry_run=dry_run)
    if done.parts if dry_run else _missing(done):
        raise typer.Exit(EXIT_DEGRADED)


def _missing(done: Repair) -> Sequence[LostPart]:
    return [part for part in done.parts if part.missing is not None]


def _row(part: LostPart) -> dict[str, Any]:

    _, (author, log_id) = split_flavoured_log_key(part.key)
    return {
        "public_key": author,
        "log_id": log_id,
        "height": part.height,
        "first": part.first if part.count else None,
        "last": part.last if part.count else None,
        "missing_from": part.missing,
    }


def _print(done: Repair, *, dry_run: bool) -> None:
    if not done.parts:
        say("nothing is missing: what `logs` lacks of this index is still to be read by the job")
        return
    rows = [_row(part) for part in done.parts]
    table(None, _PARTS, rows[:_SHOWN])
    if len(rows) > _SHOWN:
        say(f"and {len(rows) - _SHOWN} further logs: `--json` lists all of them")
    held = sum(part.count for part in done.parts)
    out.print(
        f"{len(rows)} logs stand; {held} entries can be produced again from here"
        if dry_run
        else f"{len(rows)} logs stood; {done.produced} entries were produced again",
        markup=False,
    )
    if missing := len(_missing(done)):
        say(f"[bold red]{missing} logs lack entries that this index does not hold[/]")
        say("[bold]hint[/]: run it over the folder of another connector, or let a peer that has them sync")
    elif not dry_run:
        say("the job `logs` takes them now; with --dry-run this command tells whether anything is left")
