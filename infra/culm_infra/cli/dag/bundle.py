"""``culm dag export`` and ``import``: a whole folder as files, and back (reference 9)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from culm_infra.cli import options
from culm_infra.cli.dag.folder import DEFAULT_FOLDER, Folder, OnKafka, Policy, count_of, open_folder
from culm_infra.cli.options import KafkaFlags, spread
from culm_infra.cli.output import EXIT_DEGRADED, emit_json, out, say


@spread
def export(
    target: Annotated[Path, typer.Argument(metavar="DIR", help="Empty, or not there yet.")],
    *,
    folder: Folder = DEFAULT_FOLDER,
    policy: Policy = "bound",
    on_kafka: OnKafka = False,
    kafka: KafkaFlags,
    json: options.Json = False,
) -> None:
    """Write all nodes, UCANs and shards as CARs: `nodes.car` and `shards/CID.car`.

    The same store always gives the same bytes, and what is imported from them the same order and states. With
    --kafka, what the topics say is first put together in a folder for temporary files (TMPDIR).

    Example: `culm dag export backup`; `culm dag export backup --kafka`
    """
    from culm_connectors.dag.deployment.reading import read_deployment
    from culm_connectors.dag.store.exporting import export_dags

    with read_deployment(kafka.settings()) if on_kafka else open_folder(folder, policy) as store:
        manifest = export_dags(store, target)
        shards = len(store.all_shards())
    if json:
        emit_json({"manifest": manifest.text, "shards": shards})
    else:
        out.print(f"{manifest.text}  {count_of(shards, 'shard')}")


@spread
def import_(
    source: Annotated[Path, typer.Argument(metavar="DIR", exists=True, help="What an export has written.")],
    *,
    folder: Folder = DEFAULT_FOLDER,
    policy: Policy = "bound",
    on_kafka: OnKafka = False,
    kafka: KafkaFlags,
    json: options.Json = False,
) -> None:
    """Take in an export, every block and shard of it verified; what is here already stays.

    The policy must be the one that the export was judged by; with --kafka all verdict settings, which empty
    topics get from the export. Receipts are those of the export. Exit status 3: something was refused.

    Example: `culm dag import backup --dir mine`; `culm dag import backup --kafka`
    """
    from culm_connectors.dag.deployment.writing import import_into_topics
    from culm_connectors.dag.store.exporting import import_dags

    if on_kafka:
        found = import_into_topics(kafka.settings(), source)
    else:
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
