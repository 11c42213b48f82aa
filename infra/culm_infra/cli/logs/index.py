"""``culm logs index verify`` and ``culm logs repair``: the index of a stopped connector.

`verify` checks the index and can mend it. `repair` produces entries from it again that expired before they
reached `logs`.
"""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from culm_infra.cli.kit.data_folder import DataDirectory
from culm_infra.cli.kit.noun import noun
from culm_infra.cli.kit.options import KafkaFlags, public_key
from culm_infra.cli.kit.output import (
    EXIT_DEGRADED,
    Results,
    emit_json,
    out,
    progress,
    safe,
    say,
    show_progress,
    table,
)
from culm_infra.columns import Columns
from culm_models.p2panda.operations.operation import peek

if TYPE_CHECKING:
    from collections.abc import Sequence

    from culm_connectors.logs.lost_entries.stopped_edge import Repair
    from culm_connectors.logs.lost_entries.survey import LostPart
    from culm_connectors.logs.warm_start.index_check import IndexCheck
    from culm_connectors.logs.warm_start.verification import BlockDifference

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
    directory: DataDirectory = None,
    kafka: KafkaFlags,
    results: Results,
) -> None:
    """Produce entries of a stopped connector's index to `entries` again if `logs` cannot get them otherwise.

    These are entries that expired on `entries` before the job `logs` had read them. Records that the job has
    still to read do not count as missing. The command may be repeated: the job drops repeats. A running
    connector does the same by itself.

    Exit status 3: logs still have missing entries that this index does not hold; with `--dry-run`, any log
    has missing entries. In that case, try the folder of another connector.

    Example: `culm logs repair --dir ./edge-1 --dry-run`
    """
    from culm_connectors.logs.lost_entries.stopped_edge import repair_from
    from culm_connectors.logs.replicated_logs import INDEX_FOLDER, INDEXED_TOPICS
    from culm_connectors.protocols import LOG_PAYLOADS, load
    from culm_infra.settings import connector_directory, resolve_kafka

    authors = frozenset(public_key(text, "--author") for text in author or ())
    settings = kafka.load(connector={"directory": directory})
    with progress() as display:
        done = asyncio.run(
            repair_from(
                connector_directory(settings),
                INDEX_FOLDER,
                load(LOG_PAYLOADS),
                resolve_kafka(settings),
                INDEXED_TOPICS,
                authors=authors,
                dry_run=dry_run,
                progress=show_progress(display),
            )
        )
    if results.json:
        rows = [_lost_row(part) for part in done.parts]
        emit_json({"logs": rows, "missing_logs": len(_missing(done)), "produced": done.produced})
    else:
        _print_lost(done, dry_run=dry_run)
    if done.parts if dry_run else _missing(done):
        raise typer.Exit(EXIT_DEGRADED)


def _missing(done: Repair) -> Sequence[LostPart]:
    return [part for part in done.parts if part.missing is not None]


def _lost_row(part: LostPart) -> dict[str, Any]:
    author, log_id = part.log
    return {
        "public_key": author,
        "log_id": log_id,
        "height": part.height,
        "first": part.first if part.count else None,
        "last": part.last if part.count else None,
        "missing_from": part.missing,
    }


def _print_lost(done: Repair, *, dry_run: bool) -> None:
    if not done.parts:
        say("nothing is missing: the job has still to read the entries of this index that are not in `logs`")
        return
    rows = [_lost_row(part) for part in done.parts]
    table(None, _PARTS, rows[:_SHOWN])
    if len(rows) > _SHOWN:
        say(f"and {len(rows) - _SHOWN} further logs: `--json` lists all of them")
    entries = sum(part.count for part in done.parts)
    out.print(
        f"{len(rows)} logs stand; {entries} entries can be produced again from here"
        if dry_run
        else f"{len(rows)} logs stood; {done.produced} entries were produced again",
        markup=False,
    )
    if missing := len(_missing(done)):
        say(f"[bold red]{missing} logs are missing entries that this index does not hold[/]")
        say("[bold]hint[/]: run it over the folder of another connector, or let a peer that has them sync")
    elif not dry_run:
        say("the job `logs` reads them now; with --dry-run this command reports whether anything is left")


def verify(
    *,
    repair: Annotated[
        bool, typer.Option("--repair", help="Read what is damaged from `logs` once more.")
    ] = False,
    directory: DataDirectory = None,
    kafka: KafkaFlags,
    results: Results,
) -> None:
    """Compare the index with `blocks`, block by block, and its records with each other; print differences.

    Exit status 3: something is damaged and was not repaired. A block that is ahead has grown since; a pending
    block was computed from records that the connector has not read yet.

    Example: `culm logs index verify --dir ./edge-1 --repair`
    """
    from culm_connectors.logs.replicated_logs import INDEX_FOLDER, INDEXED_TOPICS
    from culm_connectors.logs.warm_start.index_check import check_index
    from culm_connectors.p2panda.interest import covered_schemas
    from culm_infra.settings import connector_directory, resolve_kafka

    settings = kafka.load(connector={"directory": directory})
    folder: Path = connector_directory(settings) / INDEX_FOLDER
    with progress() as display:
        checked = asyncio.run(
            check_index(
                peek,
                folder,
                resolve_kafka(settings),
                INDEXED_TOPICS,
                covered_schemas,
                mend=repair,
                progress=show_progress(display),
            )
        )
    if results.json:
        emit_json(_row(checked))
    else:
        _print(checked)
    if not checked.left.is_sound:
        raise typer.Exit(EXIT_DEGRADED)


def _row(checked: IndexCheck) -> dict[str, Any]:
    before, after = checked.found, checked.left
    return {
        "sound": after.is_sound,
        "schemas": checked.block_schemas,
        "blocks": before.blocks,
        "logs": before.logs,
        "damaged_logs": len(before.damaged),
        "differences": [_difference(difference) for difference in before.differences],
        "repaired_logs": checked.repaired_logs,
        "repaired_entries": checked.repaired_entries,
        "left": [_difference(difference) for difference in after.differences if difference.is_damage],
    }


def _difference(difference: BlockDifference) -> dict[str, Any]:
    return {**dataclasses.asdict(difference), "damage": difference.is_damage}


def _print(checked: IndexCheck) -> None:
    check = checked.found
    if check.differences:
        columns = {
            "schema": "schema_id",
            "block": lambda row: f"{row['block']}/{row['block_bits']}",
            **{name: name for name in ("logs", "missing", "behind", "ahead", "other")},
            "": lambda row: "damaged" if row["damage"] else "not read yet" if row["pending"] else "newer",
        }
        table(None, columns, map(_difference, check.differences))
    if not checked.block_schemas:
        say("`blocks` holds nothing of what this index holds: its records were only compared with each other")
    out.print(
        f"{check.logs} logs in {check.blocks} blocks of {checked.block_schemas} schemas, "
        f"{len(check.damaged)} logs damaged",
        markup=False,
    )
    if checked.repaired_logs:
        out.print(
            f"{checked.repaired_logs} logs read again, {checked.repaired_entries} entries", markup=False
        )
    if not checked.left.is_sound and checked.repaired_logs:
        say(
            f"[bold red]{safe(len(checked.left.damaged))} logs are still damaged[/]: they are "
            f"missing in `logs`, too"
        )
    elif not checked.left.is_sound:
        say("[bold]hint[/]: `culm logs index verify --repair` reads them from `logs` once more")


app = noun("The index of a connector that is stopped.", {"verify": verify})
