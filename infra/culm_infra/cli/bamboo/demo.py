"""``culm demo bamboo``: partial, live and payload-frugal replication, in scenes with figures."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Final

import typer

from culm_infra.cli import options
from culm_infra.cli.demo.present import present_folders
from culm_infra.cli.options import KafkaFlags, words
from culm_infra.cli.results import Results

SCENES: Final = (
    "sparse",
    "backfill",
    "both-ways",
    "greedy",
    "large",
    "live",
    "credit",
    "failover",
    "device",
    "edges",
)
"""Names of scenes; the scenes themselves are loaded when they are played."""


def demo(
    *,
    entries: Annotated[
        int, typer.Option("--entries", min=200, max=10_000_000, help="Entries of the long log.")
    ] = 100_000,
    payload_mb: Annotated[
        int, typer.Option("--payload-mb", min=2, max=1_000, help="Megabytes of the large payload.")
    ] = 50,
    live: Annotated[
        int, typer.Option("--live", min=1, max=100_000, help="Entries that are published live.")
    ] = 200,
    scenes: Annotated[
        list[str] | None,
        typer.Option(
            "--scene",
            help=f"Only this scene: {', '.join(SCENES)}. Repeatable.",
            autocompletion=words(*SCENES),
        ),
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", min=1, help="Seconds that a wait goes on while nothing changes.")
    ] = 120.0,
    directory: options.StackDirectory = None,
    results: Results,
    kafka: KafkaFlags,
) -> None:
    """Peers of Bamboo Point-2-Point exchange what they want of logs, and nothing else, over TCP and QUIC.

    A sparse reader proves single entries of a long log by their certificate pools; payloads follow later; two
    peers fill each other's gaps in one request; a corrupted payload is passed on unverified and apologised
    for; a large payload goes on after SIGKILL while other entries flow; open ranges carry new entries; credit
    runs out and comes back; a source falls silent; a small device stays small; logs go over two edges and
    Kafka, whole and sparse. Each scene shows figures, and what they have to be. Exit status 0: all are; 3:
    not.

    Example: culm demo bamboo --entries 5000 --payload-mb 8; culm demo bamboo --scene live --live 1000
    """
    from culm_infra.demo.bamboo.report import tables
    from culm_infra.demo.bamboo.run import play
    from culm_infra.demo.bamboo.stage import BambooDemoSettings
    from culm_infra.settings import resolve_kafka

    if unknown := [one for one in scenes or [] if one not in SCENES]:
        raise typer.BadParameter(f"{unknown[0]!r} is no scene: write {', '.join(SCENES)}")
    settings = kafka.load()
    plan = partial(
        BambooDemoSettings,
        entries=entries,
        payload_mb=payload_mb,
        live=live,
        scenes=tuple(scenes or ()),
        timeout_s=timeout,
        kafka=resolve_kafka(settings) if settings.bootstrap is not None else None,
        heap_mb=settings.stack.heap_mb,
    )
    present_folders(directory, plan, play, tables, results=results)
