"""``culm logs index``: the index of a connector that is stopped: is it whole, and if not, mend it."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from culm_infra.cli import options
from culm_infra.cli.connector import home
from culm_infra.cli.noun import noun
from culm_infra.cli.options import KafkaFlags
from culm_infra.cli.output import EXIT_DEGRADED, emit_json, out, progress, safe, say, show_parts
from culm_infra.cli.results import Results, table
from culm_models.p2panda.operations.operation import peek

if TYPE_CHECKING:
    from culm_connectors.logs.warm_start.index_check import IndexCheck
    from culm_connectors.logs.warm_start.verification import BlockDifference


def verify(
    *,
    repair: Annotated[
        bool, typer.Option("--repair", help="Read what is damaged from `logs` once more.")
    ] = False,
    directory: options.ConnectorDirectory = None,
    kafka: KafkaFlags,
    results: Results,
) -> None:
    """Compare the index with `blocks`, block by block, and its records with each other; say what differs.

    Ends with status 3 where something is damaged and was not repaired. A block that is ahead has grown
    since; one that is pending was made of records that the connector has not read yet.

    Example: `culm logs index verify --dir ./edge-1 --repair`
    """
    from culm_connectors.logs.replicated_logs import INDEX_FOLDER, INDEXED_TOPICS
    from culm_connectors.logs.warm_start.index_check import check_index
    from culm_connectors.p2panda.interest import covered_schemas
    from culm_infra.settings import resolve_kafka

    settings = kafka.load(connector={"directory": directory})
    folder: Path = home(settings) / INDEX_FOLDER
    with progress() as display:
        checked = asyncio.run(
            check_index(
                peek,
                folder,
                resolve_kafka(settings),
                INDEXED_TOPICS,
                covered_schemas,
                mend=repair,
                progress=show_parts(display),
            )
        )
    if results.json:
        emit_json(_row(checked))
    else:
        _print(checked)
    if not checked.left.is_sound:
        raise typer.Exit(EXIT_DEGRADED)


def _row(checked: IndexCheck) -> dict[str, Any]:
    found, left = checked.found, checked.left
    return {
        "sound": left.is_sound,
        "schemas": checked.block_schemas,
        "blocks": found.blocks,
        "logs": found.logs,
        "damaged_logs": len(found.damaged),
        "differences": [_difference(one) for one in found.differences],
        "repaired_logs": checked.repaired_logs,
        "repaired_entries": checked.repaired_entries,
        "left": [_difference(one) for one in left.differences if one.is_damage],
    }


def _difference(one: BlockDifference) -> dict[str, Any]:
    return {**dataclasses.asdict(one), "damage": one.is_damage}


def _print(checked: IndexCheck) -> None:
    found = checked.found
    if found.differences:
        columns = {
            "schema": "schema_id",
            "block": lambda row: f"{row['block']}/{row['block_bits']}",
            **{name: name for name in ("logs", "missing", "behind", "ahead", "other")},
            "": lambda row: "damaged" if row["damage"] else "not read yet" if row["pending"] else "newer",
        }
        table(None, columns, map(_difference, found.differences))
    if not checked.block_schemas:
        say("`blocks` holds nothing of what this index holds: its records were only compared with each other")
    out.print(
        f"{found.logs} logs in {found.blocks} blocks of {checked.block_schemas} schemas, "
        f"{len(found.damaged)} logs damaged",
        markup=False,
    )
    if checked.repaired_logs:
        out.print(
            f"{checked.repaired_logs} logs read again, {checked.repaired_entries} entries", markup=False
        )
    if not checked.left.is_sound and checked.repaired_logs:
        say(f"[bold red]{safe(len(checked.left.damaged))} logs are still damaged[/]: `logs` lacks them too")
    elif not checked.left.is_sound:
        say("[bold]hint[/]: `culm logs index verify --repair` reads them from `logs` once more")


app = noun("The index of a connector that is stopped.", {"verify": verify})
