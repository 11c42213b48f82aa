"""``culm dag export`` and ``import``: a whole folder as files, and back (reference 9)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from culm_infra.cli import options
from culm_infra.cli.dag.folder import DEFAULT_FOLDER, Folder, Policy, count_of, open_folder
from culm_infra.cli.output import EXIT_DEGRADED, emit_json, out, say


def export(
    target: Annotated[Path, typer.Argument(metavar="DIR", help="Empty, or not there yet.")],
    *,
    folder: Folder = DEFAULT_FOLDER,
    policy: Policy = "bound",
    json: options.Json = False,
) -> None:
    """Write all nodes, UCANs and shards as CARs: `nodes.car` and `shards/CID.car`.

    The same folder always gives the same bytes, and what is imported from them the same order and states.

    Example: `culm dag export backup`
    """
    from culm_connectors.dag.store.exporting import export_dags

    with open_folder(folder, policy) as store:
        manifest = export_dags(store, target)
        shards = len(store.all_shards())
    if json:
        emit_json({"manifest": manifest.text, "shards": shards})
    else:
        out.print(f"{manifest.text}  {count_of(shards, 'shard')}")


def import_(
    source: Annotated[Path, typer.Argument(metavar="DIR", exists=True, help="What an export has written.")],
    *,
    folder: Folder = DEFAULT_FOLDER,
    policy: Policy = "bound",
    json: options.Json = False,
) -> None:
    """Take in an export, every block and shard of it verified; what is here already stays.

    The policy must be the one that the export was judged by. Exit status 3: something was refused.

    Example: `culm dag import backup --dir mine`
    """
    from culm_connectors.dag.store.exporting import import_dags

    with open_folder(folder, policy, create=True) as store:
        found = import_dags(store, source)
    if json:
        emit_json(
            {
                "blocks": found.blocks,
                "shards": found.shards,
                "refused": [[one.cid.text, one.code] for one in found.refused],
            }
        )
    else:
        blocks = count_of(found.blocks, "new node or UCAN", "new nodes and UCANs")
        out.print(f"{blocks}, {count_of(found.shards, 'new shard')}")
        for one in found.refused:
            say(f"[yellow]{one.cid.text}[/]: {one.code}")
    if found.refused:
        raise typer.Exit(EXIT_DEGRADED)
