"""``culm dag export`` and ``import``: a whole folder as files (reference 9), or one DAG as a CAR."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from culm_infra.cli.dag.folder import (
    OnKafka,
    Space,
    ValidatingFolderFlags,
    check_place,
    count_of,
    now_s,
    parse_cid,
    parse_key,
)
from culm_infra.cli.kit.new_paths import new_path
from culm_infra.cli.kit.options import KafkaFlags
from culm_infra.cli.kit.output import EXIT_DEGRADED, Results, counting
from culm_infra.columns import Row

_SHOWN_MAX = 10


def export(
    context: typer.Context,
    *,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="PATH",
            allow_dash=True,
            help="A new or empty folder. With --root a new file; - is standard output, the default.",
        ),
    ] = None,
    flags: ValidatingFolderFlags,
    root: Annotated[
        str | None, typer.Option(metavar="CID", help="Only the DAG below this block, as a CAR.")
    ] = None,
    on_kafka: OnKafka = False,
    kafka: KafkaFlags,
    results: Results,
) -> None:
    """Write all nodes, UCANs and shards as CARs (`nodes.car` and `shards/CID.car`), or one DAG as one CAR.

    The same store always gives the same bytes, and an import restores the same order and states. With
    --kafka, the contents of the topics are first collected in a folder for temporary files (TMPDIR). With
    --root, the CAR has version 1, which other tools read. No file is written if a block is missing.

    Example: `culm dag export -o backup`; `culm dag export --kafka -o backup`;
    `culm dag export --root bafybei… -o film.car`
    """
    from culm_connectors.dag.cars import export_car
    from culm_connectors.dag.deployment import read_deployment
    from culm_connectors.dag.store.exporting import export_dags

    check_place(context, on_kafka=on_kafka)
    cid = None if root is None else parse_cid(root)
    target = None if str(output) == "-" else output
    if target is None:
        _check_standard_output(is_car=cid is not None, results=results)
    with read_deployment(kafka.settings()) if on_kafka else flags.open() as store:
        if target is None:
            assert cid is not None, "only a CAR goes to standard output"
            export_car(cid, store.block, sys.stdout.buffer)
            sys.stdout.buffer.flush()
            return
        if cid is None:
            manifest = export_dags(store, target)
            shards = len(store.all_shards())
        else:
            with new_path(target) as fresh, fresh.open("xb") as file:
                blocks = export_car(cid, store.block, file)
    if cid is None:
        row: Row = {"manifest": manifest.text, "shards": shards}
        results.one(row, f"{manifest.text}  {count_of(shards, 'shard')}")
    else:
        size = target.stat().st_size
        row = {"root": cid.text, "blocks": blocks, "bytes": size}
        results.one(row, f"{cid.text}  {count_of(size, 'byte')}, {count_of(blocks, 'block')}")
    results.next(f"culm dag import {shlex.quote(str(target))} --dir other")


def _check_standard_output(*, is_car: bool, results: Results) -> None:
    if not is_car:
        raise typer.BadParameter(
            "a whole export is a folder: name it by -o, or one DAG by --root", param_hint="--output"
        )
    if results.json:
        raise typer.BadParameter("standard output carries the CAR: name a file by -o", param_hint="--json")
    if sys.stdout.isatty():
        raise typer.BadParameter("a CAR is binary, and this is a terminal", param_hint="--output")


def import_(
    context: typer.Context,
    path: Annotated[
        Path, typer.Argument(metavar="PATH", exists=True, help="What an export has written, or a CAR.")
    ],
    *,
    flags: ValidatingFolderFlags,
    space: Space = None,
    on_kafka: OnKafka = False,
    kafka: KafkaFlags,
    results: Results,
) -> None:
    """Import an export or a CAR and verify every block and shard; data that is already here stays.

    An export requires the policy by which it was validated. With --kafka it requires all of its validation
    settings; empty topics take them from the export. Receipts are those of the export. A CAR of any tool
    (version 1 or 2, with or without roots) becomes shards, which are appended to a space, by default that of
    the folder's own key. Exit status 3: something was refused, or a block below a root is missing.

    Example: `culm dag import backup --dir mine`; `culm dag import backup --kafka`; `culm dag import film.car`
    """
    check_place(context, on_kafka=on_kafka)
    if path.is_dir():
        if space is not None:
            raise typer.BadParameter("an export names the spaces of its nodes: --space goes with a CAR")
        _import_export(path, flags, kafka if on_kafka else None, results)
    else:
        if on_kafka:
            raise typer.BadParameter("a CAR goes into a folder: leave out --kafka")
        _import_car(path, flags, None if space is None else parse_key(space), results)
    if not on_kafka:
        results.next(flags.command("culm dag status"))


def _import_export(
    source: Path, flags: ValidatingFolderFlags, kafka: KafkaFlags | None, results: Results
) -> None:
    from culm_connectors.dag.deployment import import_into_topics
    from culm_connectors.dag.store.exporting import import_dags

    if kafka is not None:
        imported = import_into_topics(kafka.settings(), source)
    else:
        with flags.open(create=True) as store:
            imported = import_dags(store, source)
    refused = [[block.cid.text, block.code] for block in imported.refused]
    blocks = count_of(imported.blocks, "new node or UCAN", "new nodes and UCANs")
    results.one(
        {"blocks": imported.blocks, "shards": imported.shards, "refused": refused},
        f"{blocks}, {count_of(imported.shards, 'new shard')}",
    )
    for cid, code in refused:
        results.say(f"[yellow]{cid}[/]: {code}")
    if imported.refused:
        raise typer.Exit(EXIT_DEGRADED)


def _import_car(source: Path, flags: ValidatingFolderFlags, space: bytes | None, results: Results) -> None:
    from culm_connectors.dag.cars import import_car
    from culm_connectors.edge.keyfile import load_or_make_key

    with (
        flags.open(create=True) as store,
        counting("reading", source.stat().st_size) as count,
    ):
        whose = space or load_or_make_key(flags.path).public_key
        imported = import_car(store, source, whose, now=now_s(), on_bytes=lambda size: count(advance=size))
    roots = [cid.text for cid in imported.roots]
    origin = None if imported.origin is None else imported.origin.text
    inside = f"{count_of(imported.blocks, 'block')} in {count_of(len(imported.shards), 'shard')}"
    results.one(
        {
            "roots": roots,
            "space": whose,
            "origin": origin,
            "blocks": imported.blocks,
            "shards": len(imported.shards),
            "missing": [cid.text for cid in imported.missing],
        },
        "\n".join([*roots, inside, *([] if origin is None else [f"origin {origin}"])]),
    )
    for cid in imported.missing[:_SHOWN_MAX]:
        results.say(f"[yellow]{cid.text}[/] is missing")
    if (rest := len(imported.missing) - _SHOWN_MAX) > 0:
        results.say(f"[yellow]{rest:,} more are missing[/] (--json lists all)")
    if imported.missing:
        raise typer.Exit(EXIT_DEGRADED)
